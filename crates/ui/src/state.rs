//! How an object is, in a word, and since when: from the slim objects of the caches. The reasons are for `why`.

use flyball_api::condition::{find, is_true};
use flyball_api::daemon_set::DaemonSet;
use flyball_api::deployment::Deployment;
use flyball_api::job::Job;
use flyball_api::namespace::Namespace;
use flyball_api::node::Node;
use flyball_api::persistent_volume_claim::PersistentVolumeClaim;
use flyball_api::pod::{ConditionStatus, ContainerState, ContainerStatus, Phase, Pod, PodConditionType};
use flyball_api::replica_set::ReplicaSet;
use flyball_api::stateful_set::StatefulSet;
use flyball_api::{Condition, ObjectMeta, Timestamp};

/// How urgent the state is. The page uses the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Fine = 0,
    /// Something is under way. The page calls it broken if that takes long.
    Moving = 1,
    Broken = 2,
    /// It has ended as it should.
    Over = 3,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) since: Option<Timestamp>,
}

/// What a kind of object wants and has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) wanted: i32,
    pub(crate) ready: i32,
}

/// Reasons of waiting containers that do not pass by themselves, or only after a change.
const BROKEN: [&str; 9] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
];

fn state(level: Level, text: impl Into<String>, since: Option<Timestamp>) -> State {
    State { level, text: text.into(), since }
}

fn deleting(meta: &ObjectMeta) -> Option<State> {
    meta.deletion_timestamp.map(|time| state(Level::Moving, "being deleted", Some(time)))
}

pub(crate) fn pod(pod: &Pod) -> State {
    let (meta, status) = (&pod.metadata, &pod.status);
    let ready = pod.ready_condition();
    let changed = ready.and_then(|ready| ready.last_transition_time()).or(meta.creation_timestamp);
    if status.phase == Phase::Failed {
        let why = Some(status.reason()).filter(|why| !why.is_empty()).or_else(|| ended(pod));
        return state(Level::Broken, why.map_or("failed".into(), |why| format!("failed: {why}")), changed);
    }
    if let Some(deleting) = deleting(meta) {
        return deleting;
    }
    if status.phase == Phase::Succeeded {
        return state(Level::Over, "completed", changed);
    }
    if let Some(trouble) = containers(pod).find_map(trouble) {
        return state(Level::Broken, trouble, changed);
    }
    let scheduled = status.condition(&PodConditionType::PodScheduled);
    if let Some(refused) = scheduled.filter(|scheduled| scheduled.status == ConditionStatus::False) {
        let (level, text) = match refused.reason() {
            "SchedulingGated" => (Level::Moving, "held by a scheduling gate"),
            _ => (Level::Broken, "no node fits"),
        };
        return state(level, text, refused.last_transition_time().or(meta.creation_timestamp));
    }
    match (pod.is_ready(), &status.phase) {
        (true, _) => state(Level::Fine, "ready", changed),
        (false, Phase::Running) => state(Level::Moving, "not ready", changed),
        (false, _) if pod.spec.node_name.is_empty() => {
            state(Level::Moving, "waits for a node", meta.creation_timestamp)
        }
        (false, _) => state(Level::Moving, "starting", changed),
    }
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses)
}

/// Why a container that should run does not.
fn trouble(container: &ContainerStatus) -> Option<String> {
    match &container.state {
        ContainerState::Waiting { reason } if BROKEN.contains(&reason.as_str()) => Some(reason.to_string()),
        ContainerState::Terminated(ended) if ended.exit_code != 0 => {
            Some(format!("{} (exit code {})", ended.reason, ended.exit_code))
        }
        _ => None,
    }
}

/// Why the last container of a failed pod ended.
fn ended(pod: &Pod) -> Option<&str> {
    containers(pod).find_map(|container| match &container.state {
        ContainerState::Terminated(ended) if ended.exit_code != 0 => Some(ended.reason.as_str()),
        _ => None,
    })
}

pub(crate) fn node(node: &Node) -> State {
    if let Some(deleting) = deleting(&node.metadata) {
        return deleting;
    }
    let ready = node.condition("Ready");
    let since = ready.and_then(|ready| ready.last_transition_time).or(node.metadata.creation_timestamp);
    match ready.map(|ready| ready.status.as_str()) {
        Some("True") => {
            let pressed = |condition: &&Condition| condition.type_ != "Ready" && condition.is_true();
            match node.status.conditions.iter().find(pressed) {
                Some(pressure) => {
                    state(Level::Broken, pressure.type_.as_str(), pressure.last_transition_time)
                }
                None if node.spec.unschedulable => state(Level::Fine, "ready, cordoned", since),
                None => state(Level::Fine, "ready", since),
            }
        }
        Some("False") => state(Level::Broken, "not ready", since),
        Some(_) => state(Level::Broken, "lost: no heartbeats", since),
        None => state(Level::Moving, "joining", since),
    }
}

/// The state of something with replicas, by its counts; conditions say since when.
fn replicas(meta: &ObjectMeta, amounts: Amounts, word: &str, conditions: &[Condition]) -> State {
    let Amounts { wanted, ready } = amounts;
    let text = format!("{ready} of {wanted} {word}");
    if let Some(failure) = find(conditions, "ReplicaFailure").filter(|failure| failure.is_true()) {
        return state(Level::Broken, format!("{text}: pods cannot be created"), failure.last_transition_time);
    }
    let available = find(conditions, "Available").and_then(|available| available.last_transition_time);
    let since = available.or(meta.creation_timestamp);
    state(if ready >= wanted { Level::Fine } else { Level::Moving }, text, since)
}

pub(crate) fn deployment(object: &Deployment) -> State {
    if let Some(deleting) = deleting(&object.metadata) {
        return deleting;
    }
    let conditions = &object.status.conditions;
    let state = replicas(&object.metadata, deployment_amounts(object), "available", conditions);
    let progress = find(conditions, "Progressing");
    if state.level == Level::Broken {
        return state;
    }
    if let Some(stuck) = progress.filter(|progress| progress.is_false()) {
        let text = format!("{}: the rollout does not progress", state.text);
        return State { level: Level::Broken, text, since: stuck.last_transition_time };
    }
    let status = &object.status;
    let is_rolling = status.updated_replicas < status.replicas && state.level == Level::Fine;
    if is_rolling && !object.spec.paused {
        let text = format!("{}, {} updated", state.text, status.updated_replicas);
        let since = progress.and_then(|progress| progress.last_update_time).or(state.since);
        return State { level: Level::Moving, text, since };
    }
    state
}

pub(crate) fn deployment_amounts(object: &Deployment) -> Amounts {
    Amounts { wanted: object.spec.replicas.unwrap_or(1), ready: object.status.available_replicas }
}

pub(crate) fn replica_set(object: &ReplicaSet) -> State {
    deleting(&object.metadata).unwrap_or_else(|| {
        replicas(&object.metadata, replica_set_amounts(object), "available", &object.status.conditions)
    })
}

pub(crate) fn replica_set_amounts(object: &ReplicaSet) -> Amounts {
    Amounts { wanted: object.spec.replicas.unwrap_or(1), ready: object.status.available_replicas }
}

pub(crate) fn stateful_set(object: &StatefulSet) -> State {
    if let Some(deleting) = deleting(&object.metadata) {
        return deleting;
    }
    let (amounts, status) = (stateful_set_amounts(object), &object.status);
    let state = replicas(&object.metadata, amounts, "available", &status.conditions);
    let is_rolling = status.current_revision != status.update_revision
        && status.updated_replicas < amounts.wanted
        && state.level == Level::Fine;
    match is_rolling {
        true => State { text: format!("{}, {} updated", state.text, status.updated_replicas), ..state },
        false => state,
    }
}

pub(crate) fn stateful_set_amounts(object: &StatefulSet) -> Amounts {
    Amounts { wanted: object.spec.replicas.unwrap_or(1), ready: object.status.available_replicas }
}

pub(crate) fn daemon_set(object: &DaemonSet) -> State {
    deleting(&object.metadata).unwrap_or_else(|| {
        replicas(&object.metadata, daemon_set_amounts(object), "available", &object.status.conditions)
    })
}

pub(crate) fn daemon_set_amounts(object: &DaemonSet) -> Amounts {
    let status = &object.status;
    Amounts { wanted: status.desired_number_scheduled, ready: status.number_available }
}

pub(crate) fn job(object: &Job) -> State {
    if let Some(deleting) = deleting(&object.metadata) {
        return deleting;
    }
    let status = &object.status;
    let started = status.start_time.or(object.metadata.creation_timestamp);
    if let Some(failed) = find(&status.conditions, "Failed").filter(|failed| failed.is_true()) {
        return state(Level::Broken, format!("failed: {}", failed.reason), failed.last_transition_time);
    }
    if is_true(&status.conditions, "Complete") {
        return state(Level::Over, "complete", status.completion_time.or(started));
    }
    if object.spec.suspend == Some(true) {
        return state(Level::Fine, "suspended", started);
    }
    let text = format!("{} active, {} succeeded, {} failed", status.active, status.succeeded, status.failed);
    state(Level::Fine, text, started)
}

pub(crate) fn job_amounts(object: &Job) -> Amounts {
    Amounts { wanted: object.spec.completions.unwrap_or(1), ready: object.status.succeeded }
}

pub(crate) fn claim(object: &PersistentVolumeClaim) -> State {
    if let Some(deleting) = deleting(&object.metadata) {
        return deleting;
    }
    let created = object.metadata.creation_timestamp;
    match object.status.phase.as_str() {
        "Bound" => state(Level::Fine, "bound", created),
        "Lost" => state(Level::Broken, "its volume is lost", created),
        // A claim without a pod may wait for its first consumer for ever.
        _ => state(Level::Fine, "not bound", created),
    }
}

pub(crate) fn namespace(object: &Namespace) -> State {
    deleting(&object.metadata)
        .unwrap_or_else(|| state(Level::Fine, "active", object.metadata.creation_timestamp))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn short(state: &State) -> String {
        format!("{:?} {}", state.level, state.text)
    }

    #[test]
    fn the_state_of_a_pod_says_whether_somebody_has_to_look() {
        let waiting = |reason: &str| json!({"phase": "Pending", "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": reason}}}]});
        let ended = json!([{"name": "a", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]);
        let gated = |reason: &str| json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]});
        #[rustfmt::skip]
        let table = [
            (json!({}),                                                                                      "Moving waits for a node"),
            (json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),               "Fine ready"),
            (json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}),              "Moving not ready"),
            (json!({"phase": "Succeeded"}),                                                                  "Over completed"),
            (json!({"phase": "Failed", "reason": "Evicted"}),                                                "Broken failed: Evicted"),
            (json!({"phase": "Failed", "containerStatuses": ended}),                                         "Broken failed: Error"),
            (json!({"phase": "Running", "containerStatuses": ended}),                                        "Broken Error (exit code 3)"),
            (waiting("ContainerCreating"),                                                                   "Moving waits for a node"),
            (waiting("ImagePullBackOff"),                                                                    "Broken ImagePullBackOff"),
            (waiting("CrashLoopBackOff"),                                                                    "Broken CrashLoopBackOff"),
            (gated("Unschedulable"),                                                                         "Broken no node fits"),
            (gated("SchedulingGated"),                                                                       "Moving held by a scheduling gate"),
        ];
        for (status, want) in table {
            let object: Pod =
                serde_json::from_value(json!({"metadata": {"name": "a"}, "status": status})).unwrap();
            assert_eq!(short(&pod(&object)), want, "{status}");
        }
        let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"phase": "Running"}});
        assert_eq!(short(&pod(&serde_json::from_value(leaving).unwrap())), "Moving being deleted");
    }

    #[test]
    fn the_state_of_a_deployment_tells_a_rollout_from_a_failure() {
        let of = |status: Value| {
            let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3}, "status": status});
            short(&deployment(&serde_json::from_value(object).unwrap()))
        };
        let condition = |type_: &str, status: &str| json!([{"type": type_, "status": status}]);
        #[rustfmt::skip]
        let table = [
            (json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}),  "Fine 3 of 3 available"),
            (json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}),  "Moving 2 of 3 available"),
            (json!({"replicas": 4, "updatedReplicas": 1, "availableReplicas": 3}),  "Moving 3 of 3 available, 1 updated"),
            (json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 2, "conditions": condition("Progressing", "False")}),
                                                                                    "Broken 2 of 3 available: the rollout does not progress"),
            (json!({"conditions": condition("ReplicaFailure", "True")}),            "Broken 0 of 3 available: pods cannot be created"),
        ];
        for (status, want) in table {
            assert_eq!(of(status.clone()), want, "{status}");
        }
    }

    #[test]
    fn a_node_is_lost_not_ready_or_under_pressure() {
        let of = |conditions: Value| {
            let object = json!({"metadata": {"name": "a"}, "status": {"conditions": conditions}});
            short(&node(&serde_json::from_value(object).unwrap()))
        };
        let ready = |status: &str| json!({"type": "Ready", "status": status});
        assert_eq!(of(json!([])), "Moving joining");
        assert_eq!(of(json!([ready("True")])), "Fine ready");
        assert_eq!(of(json!([ready("False")])), "Broken not ready");
        assert_eq!(of(json!([ready("Unknown")])), "Broken lost: no heartbeats");
        assert_eq!(
            of(json!([{"type": "DiskPressure", "status": "True"}, ready("True")])),
            "Broken DiskPressure"
        );
    }
}
