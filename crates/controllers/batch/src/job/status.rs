//! What to say about a Job, and which of its pods have been counted so that they may go. Pure.
//!
//! A pod that ended is counted exactly once, whatever crashes in between: its uid is written into
//! `uncountedTerminatedPods`, then its finalizer is removed, then the uid becomes a number. A uid whose pod still
//! has the finalizer is not a number yet; one whose pod has lost it is one to come.

use std::collections::BTreeMap;

use flyball_api::condition::{self, Condition};
use flyball_api::job::{JobStatus, SUSPENDED, UncountedTerminatedPods};
use flyball_api::pod::{Phase, Pod};
use flyball_api::{Timestamp, Uid, time};
use rustc_hash::FxHashSet;
use smol_str::{SmolStr, ToSmolStr};

use super::tally::Tally;
use super::verdict::{self, End};
use super::view::{View, number};

/// Most uids in a status, to bound its size and the work of one sync.
pub const MOST_UNCOUNTED: usize = 500;

/// What the step on the pods has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Pods active now.
    pub active: i32,
    /// Ready pods now.
    pub ready: i32,
    /// Pods that are being deleted now.
    pub terminating: i32,
}

/// Which way a Job was switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Stopped.
    Suspended,
    /// Going on.
    Resumed,
}

/// The first half of a report: what to write before pods may go.
#[derive(Debug)]
pub struct Report<'a> {
    /// The status.
    pub status: JobStatus,
    /// The pods that may lose their finalizer once it is written.
    pub release: Vec<&'a Pod>,
    /// Whether some ended pods have to wait for the next sync.
    pub is_capped: bool,
    /// Whether it was suspended or resumed.
    pub switched: Option<Switch>,
    /// Failures by the action of the policy rule that matched, for metrics.
    pub handled: BTreeMap<&'static str, u64>,
}

/// Says how the Job stands after a step, and counts pods that have ended.
pub fn report<'a>(
    view: &View<'a>,
    tally: &Tally<'a>,
    outcome: Outcome,
    end: Option<&End>,
    may_switch: bool,
) -> Report<'a> {
    let mut status = view.job.status.clone();
    status.start_time = verdict::started(view);
    status.active = outcome.active;
    status.ready = Some(outcome.ready);
    status.terminating = Some(outcome.terminating);
    let switched = if may_switch { switch(view, &mut status) } else { None };
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let tracked = still_tracked(view);
    settle(&mut status, &mut uncounted, |uid| tracked.contains(uid));

    let mut report = Report { status, release: vec![], is_capped: false, switched, handled: BTreeMap::new() };
    count(view, tally, end, &mut report, &mut uncounted);
    report.status.uncounted_terminated_pods = Some(uncounted);
    if let Some(indexes) = &tally.indexes {
        report.status.succeeded = number(indexes.succeeded.total());
        report.status.completed_indexes = indexes.succeeded.to_smolstr();
        report.status.failed_indexes = indexes.failed.as_ref().map(ToSmolStr::to_smolstr);
    }
    if let Some(end) = end.filter(|end| end.is_news) {
        report.status.conditions.push(holds(end.interim(), &end.reason, &end.message, view.now));
    }
    report
}

/// Notes the pods that have ended and may go.
fn count<'a>(
    view: &View<'a>,
    tally: &Tally<'a>,
    end: Option<&End>,
    report: &mut Report<'a>,
    uncounted: &mut UncountedTerminatedPods,
) {
    let known = |uids: &[Uid]| uids.iter().cloned().collect::<FxHashSet<_>>();
    let (succeeded, failed) = (known(&uncounted.succeeded), known(&uncounted.failed));
    let has_failed = |pod: &Pod| match end {
        // Once a Job has failed, whatever is left of it has failed, too.
        Some(end) if end.result == verdict::Result::Failure => true,
        // Here we delete pods ourselves, which is no failure. Upstream: job_controller.go,
        // trackJobStatusAndRemoveFinalizers: counts them after all, if it crashes between that and this.
        Some(end) if end.spares_the_stopped() => pod.status.phase == Phase::Failed,
        _ => view.is_failed(pod),
    };
    let mut new_indexes = 0;
    for pod in view.pods.iter().map(|pod| &**pod).filter(|pod| view.is_tracked(pod)) {
        if !may_go(view, tally, end, pod) {
            continue;
        }
        report.release.push(pod);
        let uid = &pod.metadata.uid;
        if pod.status.phase == Phase::Succeeded && !failed.contains(uid) {
            match &tally.indexes {
                // A succeeded index is noted as such, which keeps it from being counted again.
                Some(indexes) => {
                    new_indexes += usize::from(view.index(pod).is_some_and(|n| !indexes.recorded.has(n)));
                }
                None if succeeded.contains(uid) => {}
                None => uncounted.succeeded.push(uid.clone()),
            }
        } else if has_failed(pod) && view.is_valid(pod) && !failed.contains(uid) {
            let meaning = view.meaning(pod);
            if let Some(action) = meaning.action() {
                *report.handled.entry(action).or_default() += 1;
            }
            if meaning.counts() {
                uncounted.failed.push(uid.clone());
            }
        }
        if new_indexes + uncounted.succeeded.len() + uncounted.failed.len() >= MOST_UNCOUNTED {
            report.is_capped = true;
            return;
        }
    }
}

/// Whether a pod's finalizer has done its work: the pod has ended, or the Job has. A failed pod stays until its
/// index has a new one, which takes its failure count over.
fn may_go(view: &View<'_>, tally: &Tally<'_>, end: Option<&End>, pod: &Pod) -> bool {
    if view.job.metadata.is_deleting() || end.is_some() || pod.status.phase == Phase::Succeeded {
        return true;
    }
    let awaits_successor = || {
        let held = tally
            .indexes
            .as_ref()
            .and_then(|indexes| indexes.awaiting_successor.get(&super::view::completion_index(pod)?));
        held.is_some_and(|held| held.metadata.uid == pod.metadata.uid)
    };
    view.is_failed(pod) && !awaits_successor()
}

/// The uids of pods that still have the finalizer.
pub fn still_tracked<'a>(view: &View<'a>) -> FxHashSet<&'a Uid> {
    view.pods.iter().filter(|pod| view.is_tracked(pod)).map(|pod| &pod.metadata.uid).collect()
}

/// Turns the uids whose pods have lost the finalizer into numbers.
pub fn settle(
    status: &mut JobStatus,
    uncounted: &mut UncountedTerminatedPods,
    is_tracked: impl Fn(&Uid) -> bool,
) {
    let (succeeded, failed) = (uncounted.succeeded.len(), uncounted.failed.len());
    uncounted.succeeded.retain(&is_tracked);
    uncounted.failed.retain(&is_tracked);
    status.succeeded = status.succeeded.saturating_add(number(succeeded - uncounted.succeeded.len()));
    status.failed = status.failed.saturating_add(number(failed - uncounted.failed.len()));
}

/// Says that the Job is over, if all of its pods have ended and are counted.
pub fn conclude(status: &mut JobStatus, end: &End, now: Timestamp) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let waiting = uncounted.is_some_and(|pods| !pods.succeeded.is_empty() || !pods.failed.is_empty());
    if waiting || status.terminating.unwrap_or(0) > 0 {
        return false;
    }
    let over = holds(end.terminal(), &end.reason, &end.message, now);
    if end.result == verdict::Result::Success {
        status.completion_time = over.last_transition_time;
    }
    condition::remove(&mut status.conditions, end.terminal());
    status.conditions.push(over);
    true
}

/// Tells whether the Job is suspended, if that is news. A Job that never was has no such condition.
fn switch(view: &View<'_>, status: &mut JobStatus) -> Option<Switch> {
    let is_suspended = view.job.spec.is_suspended();
    let new = match is_suspended {
        true => holds(SUSPENDED, "JobSuspended", "Job suspended", view.now),
        false => Condition {
            status: condition::FALSE.into(),
            ..holds(SUSPENDED, "JobResumed", "Job resumed", view.now)
        },
    };
    let words = |told: &Condition| (told.status.clone(), told.reason.clone(), told.message.clone());
    match status.conditions.iter_mut().find(|condition| condition.type_ == SUSPENDED) {
        Some(told) if words(told) == words(&new) => return None,
        Some(told) => *told = new,
        None if is_suspended => status.conditions.push(new),
        None => return None,
    }
    if !is_suspended {
        // The deadline is about being active without a break.
        status.start_time = Some(time::truncate(view.now));
    } else if view.suspension_clears_start {
        status.start_time = None;
    }
    Some(if is_suspended { Switch::Suspended } else { Switch::Resumed })
}

fn holds(type_: &'static str, reason: &str, message: &str, now: Timestamp) -> Condition {
    let now = Some(time::truncate(now));
    Condition {
        type_: SmolStr::new_static(type_),
        status: condition::TRUE.into(),
        last_probe_time: now,
        last_transition_time: now,
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    }
}
