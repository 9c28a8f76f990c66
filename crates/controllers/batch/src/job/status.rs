//! The status of a Job, and which of its pods are counted so that their finalizer can be removed. Pure.
//!
//! A pod that ended is counted exactly once, also after a crash: its uid is written to `uncountedTerminatedPods`, then its
//! finalizer is removed, then the uid is removed and the count is incremented. A uid is counted only once its pod has lost
//! the finalizer ([`super::conclusion`]).

use std::collections::BTreeMap;

use flyball_api::condition::{self, Condition};
use flyball_api::job::{JobStatus, SUSPENDED, UncountedTerminatedPods};
use flyball_api::pod::{Phase, Pod};
use flyball_api::{Job, Object, Timestamp, Uid, manifest_with_status, time};
use flyball_runtime::{Effect, ErrorKinds, Event, Outcome, Write};
use rustc_hash::FxHashSet;
use smol_str::{SmolStr, ToSmolStr, format_smolstr};

use super::conclusion::{count_released, still_tracked};
use super::plan::{PodWrite, release};
use super::tally::Tally;
use super::verdict::{self, End, Verdict, completed};
use super::view::{View, number};

/// The most uids in a status, which limits its size and the work of one sync.
pub const MOST_UNCOUNTED: usize = 500;

/// The status to write before finalizers are removed, and the pods whose finalizers are.
#[derive(Debug)]
pub struct Report<'a> {
    pub status: JobStatus,
    /// The pods that may lose their finalizer once it is written.
    pub release: Vec<&'a Pod>,
    /// Whether some ended pods are left to the next sync.
    pub is_capped: bool,
    /// The event about the Job being suspended or resumed.
    pub event: Option<Event>,
    /// Failures by the action of the policy rule that matched, for metrics.
    pub handled: BTreeMap<&'static str, u64>,
    /// The end of the Job, if it has ended.
    pub end: Option<End>,
    /// Terminating pods that the end of the Job waits for.
    pub unended: i32,
}

impl<'a> Report<'a> {
    /// The write of the status, if it is new.
    pub fn write(&self, job: &Job) -> Option<Write> {
        write(job, &job.status, &self.status).map(|write| write.on_success(self.event.clone()))
    }

    /// The removal of finalizers, each tagged with its pod.
    pub fn releases(&self) -> Option<Effect<&'a Pod>> {
        let release = |pod: &&'a Pod| release(pod, "it has ended and is in the Job's status").tag(*pod);
        (!self.release.is_empty()).then(|| Effect::concurrent(self.release.iter().map(release)).into())
    }
}

/// The write of a status, if it has changed. An earlier write of the same sync may have changed the version of the Job, and
/// the Job may be gone.
pub(super) fn write(job: &Job, before: &JobStatus, after: &JobStatus) -> Option<Write> {
    let JobStatus { active, succeeded, failed, .. } = after;
    (before != after).then(|| {
        Write::update_after_write::<Job>(job.key(), manifest_with_status(job, after))
            .subresource("status")
            .why(format_smolstr!("{active} pods active, {succeeded} succeeded, {failed} failed"))
            .ignore(ErrorKinds::NOT_FOUND)
    })
}

/// The status after a plan was carried out, with the pods that have ended. `end` is the end that the plan was made for.
pub fn report<'a>(
    view: &View<'a>,
    tally: &Tally<'a>,
    end: Option<End>,
    outcome: &Outcome<PodWrite<'_>>,
) -> Report<'a> {
    let mut status = view.job.status.clone();
    status.start_time = verdict::started(view);
    let terminating = count_pods(&mut status, tally, outcome);
    status.terminating = view.features.replacement_policy.then_some(terminating);
    let unended = if view.features.delays_end() { terminating } else { 0 };
    let had_ended = end.is_some();
    let end = match end {
        // Pods that could not be deleted are not counted yet.
        Some(end) => Some(end).filter(|_| outcome.is_ok()),
        None => completed(view, tally, status.active),
    };
    let may_switch = !had_ended && end.is_none() && !view.job.metadata.is_deleting();
    let event = if may_switch { switch(view, &mut status) } else { None };
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let tracked = still_tracked(view);
    count_released(&mut status, &mut uncounted, |uid| tracked.contains(uid));

    let mut report =
        Report { status, release: vec![], is_capped: false, event, handled: BTreeMap::new(), end, unended };
    count_ended(view, tally, &mut report, &mut uncounted);
    report.status.uncounted_terminated_pods = Some(uncounted);
    if let Some(indexes) = &tally.indexes {
        report.status.succeeded = number(indexes.succeeded.total());
        report.status.completed_indexes = indexes.succeeded.to_smolstr();
        report.status.failed_indexes = indexes.failed.as_ref().map(ToSmolStr::to_smolstr);
    }
    if let Some(end) = report.end.as_ref().filter(|end| end.is_news && end.has_interim(view.features)) {
        report.status.conditions.push(holds(end.interim(), &end.reason, &end.message, view.now));
    }
    report
}

/// Counts the pods that have not ended, as they are after the writes that were made, and returns those that terminate.
fn count_pods(status: &mut JobStatus, tally: &Tally<'_>, outcome: &Outcome<PodWrite<'_>>) -> i32 {
    let (mut active, mut ready, mut terminating) =
        (number(tally.active.len()), tally.ready, tally.terminating);
    for done in &outcome.done {
        match done.tag {
            PodWrite::Create(_) => active += 1,
            PodWrite::Release(_) => {}
            PodWrite::Delete(pod) => {
                active -= 1;
                ready -= i32::from(pod.is_ready());
                terminating += 1;
            }
        }
    }
    status.active = active;
    status.ready = Some(ready);
    terminating
}

/// Adds the pods that have ended to the uncounted ones, and to those whose finalizer is removed.
fn count_ended<'a>(
    view: &View<'a>,
    tally: &Tally<'a>,
    report: &mut Report<'a>,
    uncounted: &mut UncountedTerminatedPods,
) {
    let end = report.end.as_ref();
    let known = |uids: &[Uid]| uids.iter().cloned().collect::<FxHashSet<_>>();
    let (succeeded, failed) = (known(&uncounted.succeeded), known(&uncounted.failed));
    let has_failed = |pod: &Pod| match end {
        // All remaining pods of a failed Job have failed, too, and of one that ends at once.
        Some(end) if end.verdict == Verdict::Failed || !end.has_interim(view.features) => true,
        // The controller itself deletes these pods, so they have not failed. Upstream: job_controller.go,
        // trackJobStatusAndRemoveFinalizers: counts them as failed if it crashes in between.
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
                // A succeeded index is recorded in the status, so it is not counted again.
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

/// Whether the finalizer of a pod can be removed: the pod or the Job has ended. A failed pod is kept until its index has a
/// new pod, which inherits its failure count.
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

/// Sets the condition `Suspended`, and returns the event if it has changed. A Job that was never suspended has no such
/// condition.
fn switch(view: &View<'_>, status: &mut JobStatus) -> Option<Event> {
    let is_suspended = view.job.spec.is_suspended();
    let new = match is_suspended {
        true => holds(SUSPENDED, "JobSuspended", "Job suspended", view.now),
        false => Condition {
            status: condition::FALSE.into(),
            ..holds(SUSPENDED, "JobResumed", "Job resumed", view.now)
        },
    };
    let words = |known: &Condition| (known.status.clone(), known.reason.clone(), known.message.clone());
    match status.conditions.iter_mut().find(|condition| condition.type_ == SUSPENDED) {
        Some(known) if words(known) == words(&new) => return None,
        Some(known) => *known = new,
        None if is_suspended => status.conditions.push(new),
        None => return None,
    }
    if !is_suspended {
        // The deadline counts from the last resumption.
        status.start_time = Some(time::truncate(view.now));
    } else if view.features.suspension_clears_start {
        status.start_time = None;
    }
    Some(match is_suspended {
        true => Event::normal("Suspended", "Job suspended"),
        false => Event::normal("Resumed", "Job resumed"),
    })
}

/// A condition that is true.
pub(super) fn holds(type_: &'static str, reason: &str, message: &str, now: Timestamp) -> Condition {
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
