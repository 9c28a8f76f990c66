//! The status of a Deployment, and the revision that is written along with it. Pure.

use flyball_api::condition::{self, Condition};
use flyball_api::deployment::DeploymentStatus;
use flyball_api::{Deployment, Labels, Object, ReplicaSet, manifest_with_status, time};
use flyball_runtime::Write;
use serde_json::json;

use super::annotations::REVISION;
use super::decision::{Action, Decision, Report, View};
use super::progress::{self, PROGRESSING, deadline, reason};

/// The condition that says whether enough pods are available.
pub const AVAILABLE: &str = "Available";
/// The condition that tells of pods that could not be made or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What came of a decision.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'a> {
    /// All was done; this ReplicaSet was made on the way.
    Done(Option<&'a ReplicaSet>),
    /// The ReplicaSet of the present template could not be made.
    CreateFailed(&'a str),
    /// Its name was taken by something else.
    NameTaken,
    /// Nothing was done yet: sets were adopted just now, and what is known of them is out of date.
    Adopted,
}

/// What is to be written by a PUT on the status: it carries the revision along.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub status: DeploymentStatus,
    pub annotations: Labels,
}

/// The status after a decision was carried out with this outcome. Numbers are those before its writes, as their effect is seen
/// only later.
pub fn statement(view: &View<'_>, decision: &Decision<'_>, outcome: Outcome<'_>) -> Statement {
    let mut status = view.deployment.status.clone();
    let mut annotations = view.deployment.metadata.annotations.clone();
    if !view.deployment.is_deleting() {
        progress::note_pause(view, &mut status.conditions);
    }
    match outcome {
        Outcome::NameTaken => status.collision_count = Some(status.collision_count.unwrap_or(0) + 1),
        Outcome::CreateFailed(message) => {
            note(view, &mut status.conditions, condition::FALSE, reason::CREATE_FAILED, message.to_owned());
        }
        Outcome::Done(_) | Outcome::Adopted if decision.report == Report::Nothing => {}
        // A set that is yet to be brought up to date is told of after that.
        Outcome::Adopted if decision.fleet.new.is_none() || decision.is_revising() => {}
        Outcome::Adopted => {
            annotations = with_revision(annotations, decision);
            note_new(view, decision, &mut status.conditions);
        }
        Outcome::Done(created) => {
            annotations = with_revision(annotations, decision);
            let before = status.conditions.clone();
            note_new(view, decision, &mut status.conditions);
            // Upstream: getNewReplicaSet: writes that by itself, so that the numbers are left to the next sync, which
            // sees them move and calls that progress.
            if decision.report == Report::Rollout || status.conditions == before {
                status = told(view, decision, created, status);
            }
        }
    }
    Statement { status, annotations }
}

/// The write that makes a statement known, if it says anything new.
pub fn write(deployment: &Deployment, statement: &Statement, why: &str) -> Option<Write> {
    let Statement { status, annotations } = statement;
    if *status == deployment.status && *annotations == deployment.metadata.annotations {
        return None;
    }
    let mut body = manifest_with_status(deployment, status);
    body["metadata"]["annotations"] = json!(annotations);
    Some(Write::status_of::<Deployment>(deployment.key(), body).why(why))
}

/// The counts in a sentence, for the decision log.
pub fn summary(status: &DeploymentStatus) -> String {
    let DeploymentStatus { replicas, updated_replicas, available_replicas, unavailable_replicas, .. } =
        status;
    format!(
        "{replicas} pods, {updated_replicas} of the present template, {available_replicas} available, \
         {unavailable_replicas} unavailable"
    )
}

fn with_revision(annotations: Labels, decision: &Decision<'_>) -> Labels {
    decision.revision().map_or(annotations.clone(), |revision| annotations.with(REVISION, revision))
}

/// Notes where the ReplicaSet of the present template came from.
fn note_new(view: &View<'_>, decision: &Decision<'_>, conditions: &mut Vec<Condition>) {
    let made = decision.actions.iter().find_map(|action| match action {
        Action::Create(new) => Some(&new.name),
        _ => None,
    });
    let told = condition::find(conditions, PROGRESSING);
    let unsaid = |set: &&ReplicaSet| told.is_some_and(|told| is_about_an_earlier_one(told, set));
    let created = |name: &str| (reason::CREATED, format!("Created new replica set {name:?}"));
    let (reason, message) = match (made, decision.fleet.new) {
        (Some(name), _) => created(name),
        (None, Some(set)) if unsaid(&set) => created(&set.metadata.name),
        (None, Some(set)) if told.is_none() => {
            (reason::FOUND, format!("Found new replica set {:?}", set.metadata.name.as_str()))
        }
        _ => return,
    };
    note(view, conditions, condition::TRUE, reason, message);
}

/// Whether a condition tells of the end of an earlier rollout, although a ReplicaSet was made since: whoever made it
/// did not come to say so.
fn is_about_an_earlier_one(told: &Condition, new: &ReplicaSet) -> bool {
    let is_end = [reason::COMPLETE, reason::TIMED_OUT].contains(&told.reason.as_str());
    let is_about_it = || told.message.contains(&format!("{:?}", new.metadata.name.as_str()));
    is_end && told.last_update_time <= new.metadata.creation_timestamp && !is_about_it()
}

/// Only rollouts with a deadline tell of their progress.
fn note(
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

/// The numbers and what follows from them; `before` is the status so far.
fn told(
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
        let noted = view.deployment.metadata.annotations.get(REVISION);
        let is_untold = noted.is_some() && noted != decision.revision();
        let name = new.map(|new| new.metadata.name.as_str());
        progress::judge(view, &before, &mut status, name, is_untold);
        // The new set's trouble is of more interest than that of old ones.
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

/// The pods that are being deleted. A set that its controller has looked at but not counted them for makes the
/// sum unknown; one that it has not looked at yet has none.
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

/// The failure that a set reports, as the Deployment tells of it.
fn failure(set: &ReplicaSet) -> Option<Condition> {
    let told = condition::find(&set.status.conditions, REPLICA_FAILURE)?;
    Some(Condition { last_update_time: told.last_transition_time, ..told.clone() })
}
