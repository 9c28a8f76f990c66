//! The status of a Job after finalizers were removed, and its end. Pure.

use flyball_api::job::{JobStatus, UncountedTerminatedPods};
use flyball_api::pod::Pod;
use flyball_api::{Job, Timestamp, Uid, condition};
use flyball_runtime::{Event, Outcome, Write};
use rustc_hash::FxHashSet;

use super::status::{Report, holds, write};
use super::verdict::{End, Verdict};
use super::view::{View, number};

/// The last status of a sync.
#[derive(Debug)]
pub struct Conclusion<'a> {
    pub status: JobStatus,
    /// The end, if the status shows it.
    pub end: Option<&'a End>,
}

/// The status after finalizers were removed: the uids of these pods are counted, and the Job has ended if all of its pods
/// have ended and are counted.
pub fn conclude<'a>(view: &View<'_>, report: &'a Report<'_>, released: &Outcome<&Pod>) -> Conclusion<'a> {
    let mut tracked = still_tracked(view);
    for done in &released.done {
        tracked.remove(&done.tag.metadata.uid);
    }
    let mut status = report.status.clone();
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    count_released(&mut status, &mut uncounted, |uid| tracked.contains(uid));
    status.uncounted_terminated_pods = Some(uncounted);
    let may_end = released.is_ok() && !report.is_capped;
    let end = match &report.end {
        Some(end) if may_end && finish(&mut status, end, report.unended, view.now) => Some(end),
        _ => None,
    };
    Conclusion { status, end }
}

impl Conclusion<'_> {
    /// The write of the status, if it differs from the reported one.
    pub fn write(&self, job: &Job, report: &Report<'_>) -> Option<Write> {
        let events = self.end.map(|end| events(job, end, &self.status)).unwrap_or_default();
        let write = write(job, &report.status, &self.status)?;
        Some(events.into_iter().fold(write, |write, event| write.on_success(event)))
    }
}

fn events(job: &Job, end: &End, status: &JobStatus) -> Vec<Event> {
    match end.verdict {
        Verdict::Failed => vec![Event::warning(end.reason.clone(), end.message.to_string())],
        Verdict::Succeeded => {
            let message = "Too many succeeded pods running after completion count reached";
            let too_many = job.spec.completions.is_some_and(|wanted| status.succeeded > wanted);
            let too_many = too_many.then(|| Event::warning("TooManySucceededPods", message));
            too_many.into_iter().chain([Event::normal("Completed", "Job completed")]).collect()
        }
    }
}

/// The uids of pods that still have the finalizer.
pub fn still_tracked<'a>(view: &View<'a>) -> FxHashSet<&'a Uid> {
    view.pods.iter().filter(|pod| view.is_tracked(pod)).map(|pod| &pod.metadata.uid).collect()
}

/// Counts the uids whose pods have lost the finalizer.
pub fn count_released(
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

/// Adds the final condition, if all pods are counted and have ended.
pub fn finish(status: &mut JobStatus, end: &End, unended: i32, now: Timestamp) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let has_uncounted = uncounted.is_some_and(|pods| !pods.succeeded.is_empty() || !pods.failed.is_empty());
    if has_uncounted || unended > 0 {
        return false;
    }
    let over = holds(end.terminal(), &end.reason, &end.message, now);
    if end.verdict == Verdict::Succeeded {
        status.completion_time = over.last_transition_time;
    }
    condition::remove(&mut status.conditions, end.terminal());
    status.conditions.push(over);
    true
}
