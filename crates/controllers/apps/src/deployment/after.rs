//! What follows from the outcome of a plan: the status, and whether the sync has failed. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ReplicaSet};
use flyball_runtime::ErrorKinds;
use flyball_runtime::plan::Failure;

use super::decision::{Action, Decision, Report, View};
use super::new_replica_set::NewReplicaSet;
use super::plan::Step;
use super::progress;
use super::status::{Outcome, Statement, statement, summary};

#[derive(Debug, Default, PartialEq)]
pub struct After {
    /// The status to write, and why.
    pub statement: Option<(Statement, String)>,
    /// Whether the sync failed and is retried.
    pub is_failure: bool,
    pub requeue: Option<Duration>,
}

/// What follows from a plan that failed, or did not. `cached` looks up a ReplicaSet.
pub fn conclude(
    view: &View<'_>,
    decision: &Decision<'_>,
    failure: Option<&Failure<Step>>,
    cached: impl FnOnce(&Key) -> Option<Arc<ReplicaSet>>,
) -> After {
    let new = decision.actions.iter().find_map(|action| match action {
        Action::Create(new) => Some(new),
        _ => None,
    });
    match (failure, new) {
        (None, _) => success(view, decision, new),
        (Some(failure), Some(new)) if failure.tag == Some(Step::Create) => {
            let key = Key::new(view.deployment.metadata.namespace.as_str(), new.name.as_str());
            not_created(view, decision, new, failure, || cached(&key))
        }
        // The new ReplicaSet has its size: users see what there is of it, and whether the deadline has passed.
        (Some(failure), _)
            if failure.tag == Some(Step::ScaleDownOld)
                && decision.report == Report::Rollout
                && view.limits.is_rolling() =>
        {
            After { is_failure: true, ..success(view, decision, new) }
        }
        (Some(_), _) => After { is_failure: true, ..After::default() },
    }
}

fn success(view: &View<'_>, decision: &Decision<'_>, new: Option<&NewReplicaSet>) -> After {
    if decision.report == Report::Nothing {
        return After::default();
    }
    let created = new.map(|new| new.created(view.deployment));
    let statement = statement(view, decision, Outcome::Done(created.as_ref()));
    let requeue = match decision.report {
        Report::Rollout => progress::next_check(view, &statement.status),
        Report::Counts | Report::Nothing => None,
    };
    let why = summary(&statement.status);
    After { statement: Some((statement, why)), is_failure: false, requeue }
}

/// The ReplicaSet of the current template could not be created.
fn not_created(
    view: &View<'_>,
    decision: &Decision<'_>,
    new: &NewReplicaSet,
    failure: &Failure<Step>,
    cached: impl FnOnce() -> Option<Arc<ReplicaSet>>,
) -> After {
    let is = |kinds| failure.is_one_of(kinds);
    let state = |outcome, why: String| Some((statement(view, decision, outcome), why));
    if is(ErrorKinds::NAMESPACE_TERMINATING) {
        // The Deployment will be deleted as well.
        return After::default();
    }
    if !is(ErrorKinds::ALREADY_EXISTS) {
        let message = &failure.message;
        let statement = state(Outcome::CreateFailed(message), message.clone());
        return After { statement, is_failure: true, requeue: None };
    }
    // A set from an earlier attempt is found by the next sync, once the cache shows it. For another set of that name, the
    // next sync uses another hash.
    let is_ours = |set: &ReplicaSet| {
        set.metadata.is_controlled_by(&view.deployment.metadata.uid)
            && set.spec.template.makes_same_pods(&view.deployment.spec.template)
    };
    match cached() {
        Some(set) if !is_ours(&set) => {
            let why =
                format!("another ReplicaSet has the name {}; the next sync uses another hash", new.name);
            After { statement: state(Outcome::NameTaken, why), ..After::default() }
        }
        _ => After { is_failure: true, ..After::default() },
    }
}
