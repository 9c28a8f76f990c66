//! `spec.podFailurePolicy`: the effect of the failure of a pod on its Job. Pure.

use flyball_api::job::{OnExitCodes, OnPodCondition, PodFailurePolicy};
use flyball_api::pod::{ContainerState, ContainerStatus, Pod, PodCondition};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// It counts towards the limits; `by_rule` if a rule has matched.
    Counts {
        by_rule: bool,
    },
    Ignored,
    FailsIndex,
    /// The Job fails, with this message.
    FailsJob(String),
}

impl Meaning {
    /// Whether it counts towards the limits.
    pub fn counts(&self) -> bool {
        *self != Self::Ignored
    }

    /// The action of the rule that matched, for metrics.
    pub fn action(&self) -> Option<&'static str> {
        match self {
            Self::Counts { by_rule: false } => None,
            Self::Counts { by_rule: true } => Some("Count"),
            Self::Ignored => Some("Ignore"),
            Self::FailsIndex => Some("FailIndex"),
            Self::FailsJob(_) => Some("FailJob"),
        }
    }
}

/// The effect of the failure of `pod`: the first matching rule decides; without one it counts.
pub fn meaning(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Meaning {
    let rules = policy.map_or(&[][..], |policy| &policy.rules);
    let matched = rules.iter().enumerate().find_map(|(n, rule)| {
        let cause = match &rule.on_exit_codes {
            Some(codes) => exit(pod, codes).map(Cause::Exit),
            None => condition(pod, &rule.on_pod_conditions).map(Cause::Condition),
        }?;
        match rule.action.as_str() {
            "Ignore" => Some(Meaning::Ignored),
            "FailIndex" => Some(Meaning::FailsIndex),
            "Count" => Some(Meaning::Counts { by_rule: true }),
            "FailJob" => Some(Meaning::FailsJob(cause.message(pod, n))),
            // An action of a newer API version is ignored; later rules apply.
            _ => None,
        }
    });
    matched.unwrap_or(Meaning::Counts { by_rule: false })
}

/// Why a rule matches.
enum Cause<'a> {
    Exit((&'a str, i32)),
    Condition(&'a PodCondition),
}

impl Cause<'_> {
    fn message(&self, pod: &Pod, rule: usize) -> String {
        let key = pod.metadata.key();
        match self {
            Self::Exit((container, code)) => format!(
                "Container {container} for pod {key} failed with exit code {code} matching FailJob rule at index {rule}"
            ),
            Self::Condition(condition) => {
                let type_ = condition.type_.as_str();
                format!("Pod {key} has condition {type_} matching FailJob rule at index {rule}")
            }
        }
    }
}

/// The first container whose exit code matches the rule; regular containers are checked before init containers.
fn exit<'a>(pod: &'a Pod, rule: &OnExitCodes) -> Option<(&'a str, i32)> {
    let matching = |status: &'a ContainerStatus| {
        let ContainerState::Terminated(end) = &status.state else { return None };
        let meant = rule.container_name.as_ref().is_none_or(|name| *name == status.name);
        let listed = rule.values.contains(&end.exit_code);
        let matches = match rule.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        (meant && matches && end.exit_code != 0).then_some((status.name.as_str(), end.exit_code))
    };
    pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses).find_map(matching)
}

/// The first condition of the pod that matches a pattern.
fn condition<'a>(pod: &'a Pod, patterns: &[OnPodCondition]) -> Option<&'a PodCondition> {
    let meant = |condition: &PodCondition, pattern: &OnPodCondition| {
        pattern.type_ == condition.type_.as_str() && pattern.status == condition.status.as_str()
    };
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|condition| patterns.iter().any(|pattern| meant(condition, pattern)))
}
