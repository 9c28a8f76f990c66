//! The progress of a rollout: whether it is complete, progresses or has timed out, and when to check again. Pure.

use std::time::Duration;

use flyball_api::condition::{self, Condition, Transition};
use flyball_api::deployment::{DeploymentSpec, DeploymentStatus};
use flyball_api::time::{self, SignedDuration};
use flyball_api::{Deployment, Timestamp};

use super::decision::View;

pub const PROGRESSING: &str = "Progressing";
/// The deadline that means "none".
const NO_DEADLINE: i32 = i32::MAX;

/// The reasons of the condition, which users' tools wait for.
pub mod reason {
    pub const CREATED: &str = "NewReplicaSetCreated";
    /// A ReplicaSet with the template exists.
    pub const FOUND: &str = "FoundNewReplicaSet";
    /// The ReplicaSet could not be created.
    pub const CREATE_FAILED: &str = "ReplicaSetCreateError";
    pub const ADVANCED: &str = "ReplicaSetUpdated";
    /// All pods are new and available.
    pub const COMPLETE: &str = "NewReplicaSetAvailable";
    /// There was no progress within the deadline.
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub const PAUSED: &str = "DeploymentPaused";
    pub const RESUMED: &str = "DeploymentResumed";
}

/// How long a rollout may go without progress, if there is a deadline.
pub fn deadline(spec: &DeploymentSpec) -> Option<SignedDuration> {
    let seconds = spec.progress_deadline_seconds.filter(|seconds| *seconds != NO_DEADLINE)?;
    Some(SignedDuration::from_secs(i64::from(seconds)))
}

/// Whether all pods have the current template and are available, by a status of the current generation.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = deployment.spec.replicas.unwrap_or(1);
    status.updated_replicas == desired
        && status.replicas == desired
        && status.available_replicas == desired
        && status.observed_generation >= deployment.metadata.generation
}

/// Whether there was progress: new pods, fewer old pods, or more ready or available pods.
fn has_advanced(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| i64::from(status.replicas) - i64::from(status.updated_replicas);
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

pub fn condition(status: &'static str, reason: &'static str, message: String, now: Timestamp) -> Condition {
    let now = Some(time::truncate(now));
    Condition {
        type_: PROGRESSING.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        last_update_time: now,
        last_transition_time: now,
        ..Condition::default()
    }
}

/// Replaces a condition of a Deployment, unless status and reason are the same.
pub fn set(conditions: &mut Vec<Condition>, new: Condition) {
    condition::supersede(conditions, new, Transition::WithStatus);
}

/// Sets the condition of a Deployment that was paused or resumed. Either restarts the deadline, so that the pause does
/// not count.
pub fn record_pause(view: &View<'_>, conditions: &mut Vec<Condition>) {
    let spec = &view.deployment.spec;
    let known = condition::find(conditions, PROGRESSING).map_or("", |condition| condition.reason.as_str());
    if deadline(spec).is_none() || known == reason::TIMED_OUT {
        return;
    }
    let (reason, message) = match (spec.paused, known == reason::PAUSED) {
        (true, false) => (reason::PAUSED, "Deployment is paused"),
        (false, true) => (reason::RESUMED, "Deployment is resumed"),
        _ => return,
    };
    set(conditions, condition(condition::UNKNOWN, reason, message.to_owned(), view.now));
}

/// Sets the progress of the rollout in `status`. `before` is the status before, with the conditions of this sync; `new` is
/// the name of the ReplicaSet of the current template, and `is_unrecorded` says that the Deployment does not have its
/// revision yet.
pub fn update_progress(
    view: &View<'_>,
    before: &DeploymentStatus,
    status: &mut DeploymentStatus,
    new: Option<&str>,
    is_unrecorded: bool,
) {
    let Some(deadline) = deadline(&view.deployment.spec) else {
        condition::remove(&mut status.conditions, PROGRESSING);
        return;
    };
    let current = condition::find(&before.conditions, PROGRESSING);
    let was_complete = current.is_some_and(|current| current.reason == reason::COMPLETE);
    if was_complete && status.replicas == status.updated_replicas {
        // The rollout is complete, so changes of pods are no progress. If the controller crashed after it began the next
        // rollout, the condition is still about the one before.
        if let Some(new) = new.filter(|_| is_unrecorded && !is_complete(view.deployment, status)) {
            let message = format!("Found new replica set {new:?}");
            set(&mut status.conditions, condition(condition::TRUE, reason::FOUND, message, view.now));
        }
        return;
    }
    let about = new.map_or_else(
        || format!("Deployment {:?}", view.deployment.metadata.name.as_str()),
        |new| format!("ReplicaSet {new:?}"),
    );
    let say = |truth, reason, what| condition(truth, reason, format!("{about} {what}."), view.now);
    if is_complete(view.deployment, status) {
        let complete = say(condition::TRUE, reason::COMPLETE, "has successfully progressed");
        set(&mut status.conditions, complete);
    } else if has_advanced(before, status) {
        let mut advanced = say(condition::TRUE, reason::ADVANCED, "is progressing");
        if let Some(current) = current.filter(|current| current.is_true()) {
            advanced.last_transition_time = current.last_transition_time;
        }
        // Also without a change: the update time is the time of the last progress.
        condition::remove(&mut status.conditions, PROGRESSING);
        status.conditions.push(advanced);
    } else if current.is_some_and(|current| is_overdue(current, deadline, view.now)) {
        let overdue = say(condition::FALSE, reason::TIMED_OUT, "has timed out progressing");
        set(&mut status.conditions, overdue);
    }
}

/// Whether the last progress is too long ago. A complete rollout cannot time out.
fn is_overdue(current: &Condition, deadline: SignedDuration, now: Timestamp) -> bool {
    match current.reason.as_str() {
        reason::COMPLETE => false,
        reason::TIMED_OUT => true,
        _ => due(current, deadline).is_some_and(|due| due < now),
    }
}

fn due(current: &Condition, deadline: SignedDuration) -> Option<Timestamp> {
    current.last_update_time?.checked_add(deadline).ok()
}

/// How long until a rollout without progress times out; `None` if it cannot.
pub fn next_check(view: &View<'_>, status: &DeploymentStatus) -> Option<Duration> {
    let deadline = deadline(&view.deployment.spec)?;
    let current = condition::find(&status.conditions, PROGRESSING)?;
    let is_timed = ![reason::COMPLETE, reason::TIMED_OUT].contains(&current.reason.as_str());
    if !is_timed || is_complete(view.deployment, status) {
        return None;
    }
    let left = due(current, deadline)?.duration_since(view.now);
    // Times in conditions have no fractions: one second more, so that the deadline has surely passed.
    Some(Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1))
}
