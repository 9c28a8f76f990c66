//! The status of a Deployment, and the revision annotation that is written with it. Pure.

use flyball_api::condition::{self, Condition};
use flyball_api::deployment::DeploymentStatus;
use flyball_api::{Deployment, Labels, Object, ReplicaSet, manifest_with_status, time};
use flyball_runtime::Write;
use serde_json::json;

use super::annotations::REVISION;
use super::decision::{Action, Decision, Report, View};
use super::progress::{self, PROGRESSING, deadline, reason};

/// Whether enough pods are available.
pub const AVAILABLE: &str = "Available";
/// Whether pods could not be created or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The outcome of a decision.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'a> {
    /// Everything was done, and this ReplicaSet was created.
    Done(Option<&'a ReplicaSet>),
    /// The ReplicaSet of the current template could not be created.
    CreateFailed(&'a str),
    /// Another ReplicaSet has its name.
    NameTaken,
    /// Nothing was done: sets were adopted in this sync, and their cached versions are stale.
    Adopted,
}

/// The content of the PUT on the status, which also carries the revision annotation.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub status: DeploymentStatus,
    pub annotations: Labels,
}

/// The status after a decision was carried out with this outcome. The counts are those before its writes, as the cache
/// shows their effect only later.
pub fn statement(view: &View<'_>, decision: &Decision<'_>, outcome: Outcome<'_>) -> Statement {
    let mut status = view.deployment.status.clone();
    let mut annotations = view.deployment.metadata.annotations.clone();
    if !view.deployment.is_deleting() {
        progress::record_pause(view, &mut status.conditions);
    }
    match outcome {
        Outcome::NameTaken => status.collision_count = Some(status.collision_count.unwrap_or(0) + 1),
        Outcome::CreateFailed(message) => {
            record(view, &mut status.conditions, condition::FALSE, reason::CREATE_FAILED, message.to_owned());
        }
        Outcome::Done(_) | Outcome::Adopted if decision.report == Report::Nothing => {}
        // A set that has to be updated is reported after the update.
        Outcome::Adopted if decision.fleet.new.is_none() || decision.is_revising() => {}
        Outcome::Adopted => {
            annotations = with_revision(annotations, decision);
            record_new_set(view, decision, &mut status.conditions);
        }
        Outcome::Done(created) => {
            annotations = with_revision(annotations, decision);
            let before = status.conditions.clone();
            record_new_set(view, decision, &mut status.conditions);
            // Upstream: getNewReplicaSet: writes this condition separately, so the next sync writes the counts, and takes
            // their change for progress.
            if decision.report == Report::Rollout || status.conditions == before {
                status = with_counts(view, decision, created, status);
            }
        }
    }
    Statement { status, annotations }
}

/// The write of a statement, if it has changed.
pub fn write(deployment: &Deployment, statement: &Statement, why: &str) -> Option<Write> {
    let Statement { status, annotations } = statement;
    if *status == deployment.status && *annotations == deployment.metadata.annotations {
        return None;
    }
    let mut body = manifest_with_status(deployment, status);
    body["metadata"]["annotations"] = json!(annotations);
    Some(Write::status_of::<Deployment>(deployment.key(), body).why(why))
}

/// The counts, for the decision log.
pub fn summary(status: &DeploymentStatus) -> String {
    let DeploymentStatus { replicas, updated_replicas, available_replicas, unavailable_replicas, .. } =
        status;
    format!(
        "{replicas} pods, {updated_replicas} of the current template, {available_replicas} available, \
         {unavailable_replicas} unavailable"
    )
}

fn with_revision(annotations: Labels, decision: &Decision<'_>) -> Labels {
    decision.revision().map_or(annotations.clone(), |revision| annotations.with(REVISION, revision))
}

/// Sets the condition about the ReplicaSet of the current template: found or created.
fn record_new_set(view: &View<'_>, decision: &Decision<'_>, conditions: &mut Vec<Condition>) {
    let made = decision.actions.iter().find_map(|action| match action {
        Action::Create(new) => Some(&new.name),
        _ => None,
    });
    let known = condition::find(conditions, PROGRESSING);
    let unreported = |set: &&ReplicaSet| known.is_some_and(|known| is_about_an_earlier_one(known, set));
    let created = |name: &str| (reason::CREATED, format!("Created new replica set {name:?}"));
    let (reason, message) = match (made, decision.fleet.new) {
        (Some(name), _) => created(name),
        (None, Some(set)) if unreported(&set) => created(&set.metadata.name),
        (None, Some(set)) if known.is_none() => {
            (reason::FOUND, format!("Found new replica set {:?}", set.metadata.name.as_str()))
        }
        _ => return,
    };
    record(view, conditions, condition::TRUE, reason, message);
}

/// Whether a condition is about the end of an earlier rollout although a ReplicaSet was created since: the controller
/// crashed before it could write the status.
fn is_about_an_earlier_one(known: &Condition, new: &ReplicaSet) -> bool {
    let is_end = [reason::COMPLETE, reason::TIMED_OUT].contains(&known.reason.as_str());
    let is_about_it = || known.message.contains(&format!("{:?}", new.metadata.name.as_str()));
    is_end && known.last_update_time <= new.metadata.creation_timestamp && !is_about_it()
}

/// Only rollouts with a deadline report their progress.
fn record(
    view: &View<'_>,
    conditions: &mut Vec<Condition>,
    truth: &'static str,
    reason: &'static str,
    message: String,
) {
    if deadline(&view.deployment.spec).is_some() {
        progress::set(conditions, progress::condition(truth, reason, message, view.now));
    }
}

/// The counts and the conditions that follow from them; `before` is the status before.
fn with_counts(
    view: &View<'_>,
    decision: &Decision<'_>,
    created: Option<&ReplicaSet>,
    before: DeploymentStatus,
) -> DeploymentStatus {
    let new = decision.fleet.new.or(created);
    let all: Vec<&ReplicaSet> = decision.fleet.all().chain(created).collect();
    let mut status = counts(view, &all, new, &before);
    set_available(view, &mut status);
    if decision.report == Report::Rollout {
        let recorded = view.deployment.metadata.annotations.get(REVISION);
        let is_unrecorded = recorded.is_some() && recorded != decision.revision();
        let name = new.map(|new| new.metadata.name.as_str());
        progress::update_progress(view, &before, &mut status, name, is_unrecorded);
        // A failure of the new set is more relevant than that of an old one.
        match new.into_iter().chain(all).find_map(failure) {
            Some(failure) => progress::set(&mut status.conditions, failure),
            None => _ = condition::remove(&mut status.conditions, REPLICA_FAILURE),
        }
    }
    status
}

fn counts(
    view: &View<'_>,
    all: &[&ReplicaSet],
    new: Option<&ReplicaSet>,
    before: &DeploymentStatus,
) -> DeploymentStatus {
    let sum =
        |number: fn(&ReplicaSet) -> i32| all.iter().fold(0, |sum: i32, set| sum.saturating_add(number(set)));
    let available = sum(|set| set.status.available_replicas);
    let wanted = sum(|set| set.spec.replicas.unwrap_or(1));
    DeploymentStatus {
        observed_generation: view.deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: new.map_or(0, |new| new.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: wanted.saturating_sub(available).max(0),
        terminating_replicas: if view.counts_terminating { terminating(all) } else { None },
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    }
}

/// The number of terminating pods. It is unknown if a set was synced by a controller that does not count them; a set that
/// was never synced has none.
fn terminating(all: &[&ReplicaSet]) -> Option<i32> {
    all.iter().try_fold(0i32, |sum, set| match set.status.terminating_replicas {
        Some(number) => Some(sum.saturating_add(number)),
        None if set.status.observed_generation == 0 => Some(sum),
        None => None,
    })
}

fn set_available(view: &View<'_>, status: &mut DeploymentStatus) {
    let enough = i64::from(status.available_replicas) >= view.limits.least_available();
    let (truth, reason, message) = match enough {
        true => (condition::TRUE, "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => {
            (condition::FALSE, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        }
    };
    let now = Some(time::truncate(view.now));
    let condition = Condition {
        type_: AVAILABLE.into(),
        status: truth.into(),
        reason: reason.into(),
        message: message.into(),
        last_update_time: now,
        last_transition_time: now,
        ..Condition::default()
    };
    progress::set(&mut status.conditions, condition);
}

/// The failure condition of a set, as a condition of the Deployment.
fn failure(set: &ReplicaSet) -> Option<Condition> {
    let failure = condition::find(&set.status.conditions, REPLICA_FAILURE)?;
    Some(Condition { last_update_time: failure.last_transition_time, ..failure.clone() })
}
