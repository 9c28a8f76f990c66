//! The conditions that a node sets on its pods.

use flyball_api::Timestamp;
use smol_str::{SmolStr, format_smolstr};

use crate::objects::{Condition, Container, ContainerStatus, Pod, PodStatus};

/// All conditions of a pod with this status; conditions of other writers are kept.
pub(super) fn conditions(pod: &Pod, status: &PodStatus, initialized: bool, now: Timestamp) -> Vec<Condition> {
    let finished = matches!(status.phase.as_str(), "Succeeded" | "Failed");
    let containers_ready = containers_ready(pod, status);
    let ready = match &containers_ready {
        ConditionValue::True => gates(pod, status),
        not => not.clone(),
    };
    let sandbox = if status.pod_ip.is_empty() || finished {
        ConditionValue::plain_false()
    } else {
        ConditionValue::True
    };
    let init = match initialized {
        true if status.phase == "Succeeded" => ConditionValue::TrueBecause("PodCompleted"),
        true => ConditionValue::True,
        false => uninitialized(pod, status),
    };
    let ours = [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", init),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", ConditionValue::True),
    ];
    let mut all = pod.status.conditions.clone();
    for (type_, value) in ours {
        set(&mut all, value.condition(type_, status.observed_generation), now);
    }
    all
}

#[derive(Debug, Clone)]
enum ConditionValue {
    True,
    TrueBecause(&'static str),
    False { reason: SmolStr, message: SmolStr },
}

impl ConditionValue {
    fn plain_false() -> Self {
        Self::False { reason: SmolStr::default(), message: SmolStr::default() }
    }

    fn because(reason: &'static str, message: SmolStr) -> Self {
        Self::False { reason: SmolStr::new_static(reason), message }
    }

    fn condition(self, type_: &'static str, observed_generation: Option<i64>) -> Condition {
        let (status, reason, message) = match self {
            Self::True => ("True", SmolStr::default(), SmolStr::default()),
            Self::TrueBecause(reason) => ("True", SmolStr::new_static(reason), SmolStr::default()),
            Self::False { reason, message } => ("False", reason, message),
        };
        let some = |text: SmolStr| Some(text).filter(|text| !text.is_empty());
        Condition {
            type_: SmolStr::new_static(type_),
            observed_generation,
            status: SmolStr::new_static(status),
            reason: some(reason),
            message: some(message),
            last_transition_time: None,
        }
    }
}

/// Replaces the condition of this type; its transition time changes only with its status.
fn set(all: &mut Vec<Condition>, mut new: Condition, now: Timestamp) {
    match all.iter_mut().find(|old| old.type_ == new.type_) {
        Some(old) => {
            let same = old.status == new.status && old.last_transition_time.is_some();
            new.last_transition_time = if same { old.last_transition_time } else { Some(now) };
            *old = new;
        }
        None => all.push(Condition { last_transition_time: Some(now), ..new }),
    }
}

fn containers_ready(pod: &Pod, status: &PodStatus) -> ConditionValue {
    match status.phase.as_str() {
        "Succeeded" => return ConditionValue::because("PodCompleted", SmolStr::default()),
        "Failed" => return ConditionValue::because("PodFailed", SmolStr::default()),
        _ => {}
    }
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
    let unready: Vec<&str> = sidecars
        .map(|spec| (spec, &status.init_container_statuses))
        .chain(pod.spec.containers.iter().map(|spec| (spec, &status.container_statuses)))
        .filter(|(spec, statuses)| !find(spec, statuses).is_some_and(|status| status.ready))
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    match unready.is_empty() {
        true => ConditionValue::True,
        false => ConditionValue::because(
            "ContainersNotReady",
            format_smolstr!("containers with unready status: [{}]", unready.join(" ")),
        ),
    }
}

fn uninitialized(pod: &Pod, status: &PodStatus) -> ConditionValue {
    let incomplete: Vec<&str> = pod
        .spec
        .init_containers
        .iter()
        .filter(|spec| !find(spec, &status.init_container_statuses).is_some_and(|status| status.ready))
        .map(|spec| spec.name.as_str())
        .collect();
    ConditionValue::because(
        "ContainersNotInitialized",
        format_smolstr!("containers with incomplete status: [{}]", incomplete.join(" ")),
    )
}

// Upstream: pkg/kubelet/status/generate.go, GeneratePodReadyCondition.
fn gates(pod: &Pod, status: &PodStatus) -> ConditionValue {
    let complaints: Vec<String> = pod
        .spec
        .readiness_gates
        .iter()
        .map(|gate| &gate.condition_type)
        .filter_map(|gate| match status.condition(gate) {
            None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
            Some(condition) if condition.status != "True" => Some(format!(
                "the status of pod readiness gate {gate:?} is not \"True\", but {}",
                condition.status
            )),
            Some(_) => None,
        })
        .collect();
    match complaints.is_empty() {
        true => ConditionValue::True,
        false => ConditionValue::because("ReadinessGatesNotReady", complaints.join(", ").into()),
    }
}

fn find<'a>(spec: &Container, statuses: &'a [ContainerStatus]) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == spec.name)
}
