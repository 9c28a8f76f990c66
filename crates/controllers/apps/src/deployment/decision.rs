//! Which policy applies to a Deployment now, and what it decides about the ReplicaSets. Pure; [`super::plan`] turns
//! this into writes.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Deployment, Labels, Object, ReplicaSet, Timestamp};

use super::annotations::REVISION;
use super::fleet::Fleet;
use super::limits::{Limits, Strategy};
use super::new_replica_set::{NewReplicaSet, revise};
use super::rollback::Rollback;
use super::{history, progress, proportional, recreate, rollback, rollout};

/// Everything that the decision depends on, borrowed from one snapshot.
pub struct View<'a> {
    pub deployment: &'a Deployment,
    pub limits: Limits,
    pub sets: &'a [Arc<ReplicaSet>],
    /// Their pods; only used by the Recreate strategy.
    pub pods: &'a [Arc<Pod>],
    /// Whether the status counts terminating pods.
    pub counts_terminating: bool,
    pub now: Timestamp,
}

#[derive(Debug, PartialEq)]
pub enum Action<'a> {
    /// Create the ReplicaSet of the current template.
    Create(NewReplicaSet),
    /// Update the annotations and `minReadySeconds` of the ReplicaSet of the current template.
    Revise { set: &'a ReplicaSet, annotations: Labels, min_ready_seconds: i32 },
    /// Scale a ReplicaSet and set its annotations with the sizes of the Deployment. `from` and `to` are equal if only the
    /// annotations are wrong.
    Scale {
        set: &'a ReplicaSet,
        /// Its size at this point of the plan.
        from: i64,
        to: i64,
    },
    /// Delete a ReplicaSet that is beyond the history limit.
    Delete { set: &'a ReplicaSet },
    /// Answer a request to roll back.
    RollBack(Rollback<'a>),
}

impl Action<'_> {
    /// How many pods a ReplicaSet loses.
    pub fn taken(&self) -> i64 {
        match self {
            Self::Scale { from, to, .. } => (from - to).max(0),
            _ => 0,
        }
    }
}

/// What the status covers after the writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// Nothing: the Deployment itself was written and will be synced again.
    Nothing,
    Counts,
    /// The counts, and the progress of the rollout.
    Rollout,
}

#[derive(Debug)]
pub struct Decision<'a> {
    pub fleet: Fleet<'a>,
    /// What to write, in order.
    pub actions: Vec<Action<'a>>,
    pub report: Report,
}

/// What to do next about a Deployment; no actions once its rollout is complete.
pub fn decide<'a>(view: &View<'a>) -> Decision<'a> {
    let deployment = view.deployment;
    let fleet = Fleet::of(deployment, view.sets);
    let (actions, report) = match rollback::requested(deployment) {
        _ if deployment.is_deleting() => (revise(view, &fleet).into_iter().collect(), Report::Counts),
        wanted if deployment.spec.paused => {
            // A request to roll back needs the old revisions, so none are deleted while there is one.
            let tidy = if wanted.is_none() { clean_up(view, &fleet) } else { vec![] };
            (chain(scaling(view, &fleet), tidy), Report::Counts)
        }
        Some(wanted) => rollback::steps(view, &fleet, wanted),
        None if proportional::is_due(view, &fleet) => (scaling(view, &fleet), Report::Counts),
        None => (rollout(view, &fleet), Report::Rollout),
    };
    Decision { fleet, actions, report }
}

fn scaling<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    chain(revise(view, fleet).into_iter().collect(), proportional::steps(view, fleet))
}

fn rollout<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    match view.limits.strategy {
        Strategy::RollingUpdate => rollout::steps(view, fleet),
        Strategy::Recreate => recreate::steps(view, fleet),
    }
}

/// What is left to do once all sets have their sizes: delete old sets, if the rollout is known to be complete.
pub fn finish<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    match progress::is_complete(view.deployment, &view.deployment.status) {
        true => clean_up(view, fleet),
        false => vec![],
    }
}

fn clean_up<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    history::surplus(view.deployment, fleet).into_iter().map(|set| Action::Delete { set }).collect()
}

fn chain<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
    first.extend(second);
    first
}

impl Decision<'_> {
    /// The revision of the ReplicaSet of the current template after the writes.
    pub fn revision(&self) -> Option<&str> {
        let planned = self.actions.iter().find_map(|action| match action {
            Action::Create(new) => Some(&new.annotations),
            Action::Revise { annotations, .. } => Some(annotations),
            _ => None,
        });
        planned.or(self.fleet.new.map(|set| &set.metadata.annotations))?.get(REVISION)
    }

    /// Whether the ReplicaSet of the current template is updated by this decision.
    pub fn is_revising(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Revise { .. }))
    }
}
