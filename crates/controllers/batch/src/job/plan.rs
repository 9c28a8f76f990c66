//! Which pods to create or delete next. Pure.

use std::cmp::Ordering;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Job, Object, Timestamp};
use flyball_client::Patch;
use flyball_common::adoption::controller_reference;
use flyball_common::pods;
use flyball_common::spare::Usefulness;
use flyball_runtime::plan::Body;
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, Waiting, Write};
use serde_json::json;
use smol_str::{SmolStr, format_smolstr};

use super::backoff::{self, finished_at};
use super::indexes::Indexes;
use super::tally::{Tally, all_failures};
use super::verdict::{End, time_to_deadline};
use super::view::{TRACKING_FINALIZER, View, completion_index, earlier_failures};
use super::{BATCH_PERIOD, template};

/// The most pods that one sync creates or deletes, so that one huge Job does not use up the request rate of all others.
pub const BURST: usize = 500;

/// What a write of a plan does.
#[derive(Debug, Clone, Copy)]
pub enum PodWrite<'a> {
    Create(NewPod),
    /// Removes the tracking finalizer of a pod that does not count.
    Release(&'a Pod),
    Delete(&'a Pod),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewPod {
    pub index: Option<u32>,
    /// The failures of its index so far, counted and ignored, if there is a `backoffLimitPerIndex`.
    pub failures: Option<(i32, i32)>,
}

/// A plan, and its label in metrics.
type Named<'a> = (&'static str, Plan<PodWrite<'a>>);

/// The event about a Job with an unknown completion mode, which is not reconciled.
pub fn unknown_mode(job: &Job) -> Option<Event> {
    let is_known = matches!(job.spec.completion_mode.as_deref(), None | Some("NonIndexed" | "Indexed"));
    let message = "Skipped Job sync because completion mode is unknown";
    (!is_known).then(|| Event::warning("UnknownCompletionMode", message))
}

/// Creates or deletes pods, never both. `end` is the end of the Job, if it has ended.
pub fn plan<'a>(view: &View<'a>, tally: &Tally<'a>, end: Option<&End>) -> Named<'a> {
    let (name, mut plan) = match end {
        Some(end) => ("reconciling", stop(tally, end)),
        None => running(view, tally),
    };
    let deadline = if end.is_none() { time_to_deadline(view) } else { None };
    plan.requeue = plan.requeue.into_iter().chain(deadline).min();
    plan.waiting.extend(waiting(view, tally, end));
    (name, plan)
}

/// The plan for a Job that has not ended.
fn running<'a>(view: &View<'a>, tally: &Tally<'a>) -> Named<'a> {
    if view.job.metadata.is_deleting() {
        return ("reconciling", Plan::default());
    }
    let (have, want) = (tally.active.len(), wanted(view, tally));
    if view.job.spec.is_suspended() {
        let why = SmolStr::new_static("the Job is suspended");
        return ("pods_deleted", discard(view, &surplus(view, tally, have), &why));
    }
    let mut surplus = surplus(view, tally, have.saturating_sub(want));
    if !surplus.is_empty() {
        surplus.truncate(BURST);
        return ("pods_deleted", discard(view, &surplus, &why(view, tally)));
    }
    let ending =
        if view.replaces_only_failed() { usize::try_from(tally.terminating).unwrap_or(0) } else { 0 };
    let (new, wait) = due(view, tally, want.saturating_sub(have + ending).min(BURST));
    match wait {
        _ if !new.is_empty() => ("pods_created", Plan::of([create(view, tally, &new)])),
        None => ("tracking", Plan::default()),
        Some(wait) => {
            let time = view.now.checked_add(wait).unwrap_or(Timestamp::MAX);
            let waiting = Waiting::until(time, "when a failed pod is replaced");
            ("pods_created", Plan::after(wait.max(BATCH_PERIOD)).waiting_for([waiting]))
        }
    }
}

/// Deletes the active pods of a Job that has ended. They keep their finalizer until they are counted.
fn stop<'a>(tally: &Tally<'a>, end: &End) -> Plan<PodWrite<'a>> {
    let why = format_smolstr!("the Job has ended: {}", end.message);
    at_once(tally.active.iter().map(|pod| pods::deletion(pod, &why).tag(PodWrite::Delete(pod))))
}

/// Deletes pods without counting them: the finalizer is removed first, also one that was added by adoption in this sync.
fn discard<'a>(view: &View<'a>, pods: &[&'a Pod], why: &SmolStr) -> Plan<PodWrite<'a>> {
    at_once(pods.iter().map(|pod| {
        let release = view.is_tracked(pod).then(|| release(pod, why).tag(PodWrite::Release(pod)));
        let delete = pods::deletion(pod, why).tag(PodWrite::Delete(pod));
        Effect::sequence(release.into_iter().chain([delete]))
    }))
}

fn at_once<'a>(effects: impl Iterator<Item = impl Into<Effect<PodWrite<'a>>>>) -> Plan<PodWrite<'a>> {
    let mut effects = effects.peekable();
    let has_some = effects.peek().is_some();
    Plan::of(has_some.then(|| Effect::concurrent(effects)))
}

/// Removes the tracking finalizer of a pod, which may be gone. If another pod has its name, the server reports a conflict:
/// the cache is stale.
pub(super) fn release(pod: &Pod, why: &str) -> Write {
    let patch = json!({"metadata": {
        "uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
    }});
    Write::patch::<Pod>(pod.key(), Patch::Strategic(patch)).why(why).ignore(ErrorKinds::NOT_FOUND)
}

fn create<'a>(view: &View<'a>, tally: &Tally<'a>, new: &[NewPod]) -> Effect<PodWrite<'a>> {
    let (job, key, why) = (view.job, view.job.key(), why(view, tally));
    // Pods with an index have a label for it.
    if job.spec.template.metadata.labels.is_empty() && !view.is_indexed() {
        return Effect::Fail(pods::NO_LABELS.into());
    }
    let common = template::common(job, &controller_reference(job), view.group);
    let shared = Body::new(&common);
    let create = |new: &NewPod| {
        let write = match new.index {
            None => pods::creation(&key, shared.clone(), &why),
            Some(index) => {
                let body = Body::new(&template::pod(job, &common, new));
                let mut write = pods::creation(&key, body, &why);
                write.key.name = format_smolstr!("{}*", template::prefix(&key.name, index));
                write
            }
        };
        write.tag(PodWrite::Create(*new))
    };
    Effect::slow_start(new.iter().map(create)).into()
}

/// The reason of creations and deletions, for the decision log.
fn why(view: &View<'_>, tally: &Tally<'_>) -> SmolStr {
    let (have, want) = (tally.active.len(), wanted(view, tally));
    let Tally { succeeded, failed, .. } = tally;
    format_smolstr!("{have} active pods, {want} wanted; {succeeded} succeeded, {failed} failed")
}

/// The pod that a Job waits for.
fn waiting(view: &View<'_>, tally: &Tally<'_>, end: Option<&End>) -> Option<Waiting> {
    let pod = |pod: &Pod, until| Waiting::on::<Pod>(&pod.key(), until);
    let terminating = view.pods.iter().find(|pod| pod.is_terminating());
    let active = tally.active.first();
    if end.is_some() {
        let ending = terminating.map(|pod| &**pod).or(active.copied())?;
        return Some(pod(ending, "to terminate"));
    }
    if view.job.spec.is_suspended() {
        return Some(Waiting::on::<Job>(&view.job.key(), "to be resumed"));
    }
    match terminating.filter(|_| view.replaces_only_failed()) {
        Some(ending) => Some(pod(ending, "to terminate")),
        None => active.map(|active| pod(active, "to finish")),
    }
}

/// How many pods should be active.
pub fn wanted(view: &View<'_>, tally: &Tally<'_>) -> usize {
    let parallelism = view.job.spec.parallelism.unwrap_or(1);
    let wanted = match view.job.spec.completions {
        // After the first success no pod is created, and active pods are kept.
        None if tally.succeeded > 0 => return tally.active.len(),
        None => parallelism,
        Some(completions) => parallelism.min(completions.saturating_sub(tally.succeeded)),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// At most `count` pods that may be created now; if there are none, the time until one may be.
fn due(view: &View<'_>, tally: &Tally<'_>, count: usize) -> (Vec<NewPod>, Option<Duration>) {
    let wait = tally.backoff.remaining(view.now);
    if count == 0 {
        return (vec![], None);
    }
    if view.limit_per_index().is_none() && !wait.is_zero() {
        return (vec![], Some(wait));
    }
    let Some(indexes) = &tally.indexes else { return (vec![NewPod::default(); count], None) };
    let mut waits = vec![];
    let mut new = vec![];
    for index in free_indexes(view, tally, count) {
        let before = indexes.awaiting_successor.get(&index).copied();
        match before.map_or(Duration::ZERO, |pod| index_wait(view, pod)) {
            wait if wait.is_zero() => {
                let failures =
                    view.limit_per_index().map(|_| before.map_or((0, 0), |pod| failures(view, pod)));
                new.push(NewPod { index: Some(index), failures });
            }
            wait => waits.push(wait),
        }
    }
    (new, waits.into_iter().min())
}

/// The remaining backoff after the failure of the last pod of an index.
fn index_wait(view: &View<'_>, last: &Pod) -> Duration {
    let failures = u32::try_from(all_failures(last)).unwrap_or(0).saturating_add(1);
    backoff::remaining(failures, finished_at(last), view.now)
}

/// The failures of an index, including its last pod.
fn failures(view: &View<'_>, last: &Pod) -> (i32, i32) {
    let (counted, ignored) = earlier_failures(last);
    match view.meaning(last).counts() {
        true => (counted.saturating_add(1), ignored),
        false => (counted, ignored.saturating_add(1)),
    }
}

/// The first `count` indexes that have not ended and have no active pod. If pods are only replaced once they have ended,
/// indexes with a terminating pod are left out.
fn free_indexes(view: &View<'_>, tally: &Tally<'_>, count: usize) -> Vec<u32> {
    let Some(indexes) = &tally.indexes else { return vec![] };
    let mut taken: Indexes = tally.active.iter().filter_map(|pod| completion_index(pod)).collect();
    taken = taken.union(&indexes.succeeded);
    if let Some(failed) = &indexes.failed {
        taken = taken.union(failed);
    }
    if view.replaces_only_failed() {
        let ending = view.pods.iter().filter(|pod| pod.is_terminating());
        taken = taken.union(&ending.filter_map(|pod| completion_index(pod)).collect());
    }
    taken.first_missing(count, view.completions())
}

/// At least `count` pods to delete: in an Indexed Job first those without a valid index and all but the highest-ranked pod of
/// each index, then by the deletion order.
fn surplus<'a>(view: &View<'a>, tally: &Tally<'a>, count: usize) -> Vec<&'a Pod> {
    let (mut spare, mut rest) = (vec![], tally.active.clone());
    if view.is_indexed() {
        // By index, and within an index by rank, with the highest last.
        rest.sort_by(|one, two| view.index(one).cmp(&view.index(two)).then_with(|| by_usefulness(one, two)));
        let keep: Vec<bool> = (0..rest.len())
            .map(|n| {
                let index = view.index(rest[n]);
                index.is_some() && rest.get(n + 1).is_none_or(|next| view.index(next) != index)
            })
            .collect();
        let mut keeps = keep.into_iter();
        (rest, spare) = rest.into_iter().partition(|_| keeps.next().unwrap_or(true));
    }
    if spare.len() < count {
        rest.sort_by(|one, two| by_usefulness(one, two));
        spare.extend(rest.into_iter().take(count - spare.len()));
    }
    spare
}

fn by_usefulness(one: &Pod, two: &Pod) -> Ordering {
    Usefulness::of(one, 0).cmp_plainly(&Usefulness::of(two, 0))
}
