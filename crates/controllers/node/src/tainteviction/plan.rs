//! For how long a pod tolerates the taints of its node, and what follows. Pure.

use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::taint::{Taint, Toleration};
use flyball_api::time::SignedDuration;
use flyball_api::{Key, Timestamp};
use flyball_client::Patch;
use flyball_common::disruption;
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, Waiting, Write, exactly};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::schedule::{Cause, Eviction, Stage};

const REASON: &str = "DeletionByTaintManager";
const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";
const NOT_TOLERATED: &str = "its node has a NoExecute taint that it does not tolerate";
const UNTIL_ALLOWED: &str = "to be evicted because of a taint, as soon as its disruption budget allows it";
const TIME_IS_UP: &str = "its node has a NoExecute taint that it does not tolerate any longer";

/// Everything that the decision depends on.
pub struct View<'a> {
    pub key: &'a Key,
    /// `None` if it is gone.
    pub pod: Option<&'a Pod>,
    /// The taints of its node; `None` while the node is not cached.
    pub taints: Option<&'a [Taint]>,
    /// The eviction that was scheduled for a pod of this name.
    pub scheduled: Option<&'a Eviction>,
    /// Whether tolerations may compare numbers.
    pub compares_numbers: bool,
    /// Whether the condition says which generation of the pod it is about (`PodObservedGenerationTracking`).
    pub tracks_generation: bool,
    /// Whether disruption budgets have a say in the eviction of ready pods.
    pub respects_budgets: bool,
    pub now: Instant,
    pub wall: Timestamp,
}

/// When the deletion was due; `None` for other writes.
pub type Tag = Option<Instant>;

/// Evicts the pod, or schedules or cancels its eviction. Returns what is scheduled from now on; once an announced eviction
/// has succeeded, it is done.
///
/// Upstream: a pod that is being deleted and not gone is evicted once more, with an event and a deletion, whenever the taints of its
/// node or its tolerations change and it does not tolerate them. If it tolerates them for a while, nothing is scheduled.
pub fn plan(view: &View<'_>) -> (Option<Eviction>, Plan<Tag>) {
    let Some(pod) = view.pod else { return (None, Plan::of(view.cancellation(view.scheduled))) };
    // A deletion that a restore of etcd has undone is made again: the barrier has shown the pod as being deleted, and it no longer is.
    let is_undone = |eviction: &Eviction| eviction.is_done() && !pod.metadata.is_deleting();
    let is_same = |eviction: &&Eviction| eviction.uid == pod.metadata.uid && !is_undone(eviction);
    let (scheduled, of_another) = (view.scheduled.filter(is_same), view.scheduled.filter(|it| !is_same(it)));
    let mut events: Vec<Event> = view.cancellation(of_another).into_iter().collect();
    let (done, scheduled) = (scheduled.filter(|it| it.is_done()), scheduled.filter(|it| !it.is_done()));
    let cause = || Cause::of(pod, view.taints);
    let stay = view.taints.map(|taints| stay(taints, &pod.spec.tolerations, view.compares_numbers));
    match due(stay, scheduled.map(|eviction| eviction.due), view.now) {
        Due::Never => (None, Plan::of(events)),
        Due::Cancelled => {
            events.extend(view.cancellation(scheduled));
            (None, Plan::of(events))
        }
        Due::At(_) if done.is_some() => (done.cloned(), Plan::of(events)),
        Due::At(due) => {
            let eviction = Eviction { uid: pod.metadata.uid.clone(), due, stage: Stage::Scheduled };
            let left = due.duration_since(view.now);
            let time = SignedDuration::try_from(left).ok().and_then(|left| view.wall.checked_add(left).ok());
            let waiting = time.map(|time| Waiting::until(time, "when it is evicted because of a taint"));
            (Some(eviction), Plan::of(events).again_after(left).waiting_for(waiting))
        }
        Due::Now if done.is_some_and(|it| it.stage == Stage::Done(cause())) => {
            (done.cloned(), Plan::of(events))
        }
        // The response to its deletion was lost.
        Due::Now if is_done(pod) && scheduled.is_some_and(Eviction::is_announced) => {
            let eviction = scheduled.map(|it| Eviction { stage: Stage::Done(cause()), ..it.clone() });
            (eviction, Plan::of(events))
        }
        Due::Now => {
            let why = if stay == Some(TolerationLimit::Refused) { NOT_TOLERATED } else { TIME_IS_UP };
            if scheduled.is_none_or(|eviction| !eviction.is_announced()) {
                // It had time left, and is evicted at once.
                events.extend(view.cancellation(scheduled.filter(|eviction| eviction.due > view.now)));
                events.push(event(format!("Marking for deletion Pod {}", view.key)));
            }
            let due = scheduled.map_or(view.now, |eviction| eviction.due.min(view.now));
            let eviction = Eviction { uid: pod.metadata.uid.clone(), due, stage: Stage::Announced };
            let mut effects: Vec<Effect<Tag>> = events.into_iter().map(Effect::from).collect();
            if view.respects_budgets && pod.is_ready() && !pod.metadata.is_deleting() {
                effects.push(evict(pod, due, why));
                let waiting = Waiting::on::<Pod>(view.key, UNTIL_ALLOWED);
                return (Some(eviction), Plan::of(effects).waiting_for([waiting]));
            }
            effects.push(view.eviction(pod, due, why));
            (Some(eviction), Plan::of(effects))
        }
    }
}

impl View<'_> {
    /// The event that an eviction is cancelled, unless there was one that it is under way.
    fn cancellation(&self, eviction: Option<&Eviction>) -> Option<Event> {
        let is_cancelled = eviction.is_some_and(|eviction| !eviction.is_announced());
        is_cancelled.then(|| event(format!("Cancelling deletion of Pod {}", self.key)))
    }

    /// Marks the pod with the reason and deletes it.
    fn eviction(&self, pod: &Pod, due: Instant, why: &str) -> Effect<Tag> {
        let mark = marking(pod, self.tracks_generation, self.wall).map(|patch| {
            let write = Write::patch::<Pod>(self.key.clone(), Patch::Strategic(patch)).subresource("status");
            write.why(why).ignore(ErrorKinds::NOT_FOUND).tag(None)
        });
        let delete = Write::delete_with::<Pod>(self.key.clone(), exactly(&pod.metadata));
        let delete = delete.why(why).ignore_only(ErrorKinds::NOT_FOUND).tag(Some(due));
        Effect::sequence(mark.into_iter().chain([delete])).stop_on(ErrorKinds::NOT_FOUND).into()
    }
}

/// Evicts a pod that serves, if its disruption budget allows it. One that does not serve, as on a node that is lost, is deleted: it
/// cannot be spared, and as long as it exists nothing replaces it.
///
/// The server sets the condition `DisruptionTarget`: before, it is not known whether the pod goes.
fn evict(pod: &Pod, due: Instant, why: &str) -> Effect<Tag> {
    Write::evict(pod).why(why).ignore(ErrorKinds::DISRUPTION_BUDGET).tag(Some(due)).into()
}

fn event(message: String) -> Event {
    Event::normal("TaintManagerEviction", message)
}

pub fn no_execute(taints: &[Taint]) -> impl Iterator<Item = &Taint> {
    taints.iter().filter(|taint| taint.effect == "NoExecute")
}

pub fn has_no_execute(taints: &[Taint]) -> bool {
    no_execute(taints).next().is_some()
}

/// For how long a pod may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TolerationLimit {
    Untainted,
    /// Some taint is not tolerated.
    Refused,
    /// All taints are tolerated, for the shortest of the given times.
    For(Duration),
    /// All taints are tolerated without limit.
    Forever,
}

/// What the taints of a node mean for a pod with these tolerations. Of several tolerations that match a taint the
/// first counts.
pub fn stay(taints: &[Taint], tolerations: &[Toleration], compares_numbers: bool) -> TolerationLimit {
    let mut shortest: Option<Duration> = None;
    let mut is_tainted = false;
    for taint in no_execute(taints) {
        is_tainted = true;
        let first = tolerations.iter().find(|toleration| toleration.tolerates(taint, compares_numbers));
        let Some(toleration) = first else { return TolerationLimit::Refused };
        if let Some(seconds) = toleration.toleration_seconds {
            let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            shortest = Some(shortest.map_or(limit, |so_far| so_far.min(limit)));
        }
    }
    match (is_tainted, shortest) {
        (false, _) => TolerationLimit::Untainted,
        (true, None) => TolerationLimit::Forever,
        (true, Some(limit)) => TolerationLimit::For(limit),
    }
}

/// When a pod is to be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Never,
    /// It was scheduled, and the pod stays.
    Cancelled,
    At(Instant),
    Now,
}

/// When a pod is to be evicted. `stay` is `None` while its node is not cached; `scheduled` is the time that was decided before.
///
/// A scheduled time is kept as long as there is any limit, also if a taint is added or a limit changes, so that an updated taint
/// does not give pods more time. Upstream: `processPodOnNode`: compares the start of the scheduled work plus the limit with now
/// plus the limit, and the former is always earlier.
pub fn due(stay: Option<TolerationLimit>, scheduled: Option<Instant>, now: Instant) -> Due {
    let at = |due: Instant| if due <= now { Due::Now } else { Due::At(due) };
    match (stay, scheduled) {
        (Some(TolerationLimit::Refused), _) => Due::Now,
        (Some(TolerationLimit::Untainted | TolerationLimit::Forever), Some(_)) => Due::Cancelled,
        (Some(TolerationLimit::Untainted | TolerationLimit::Forever) | None, None) => Due::Never,
        // A limit beyond the clock's range is none.
        (Some(TolerationLimit::For(limit)), None) => now.checked_add(limit).map_or(Due::Never, at),
        (Some(TolerationLimit::For(_)) | None, Some(due)) => at(due),
    }
}

/// Whether nothing is left to do about a pod that is to be evicted: it is being deleted, and its condition says why.
pub fn is_done(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && disruption::is_marked(pod, REASON, MESSAGE)
}

/// The patch of the status with the condition `DisruptionTarget`; `None` if the pod has it already.
pub fn marking(pod: &Pod, tracks: bool, now: Timestamp) -> Option<Value> {
    if disruption::is_marked(pod, REASON, MESSAGE) {
        return None;
    }
    let condition = disruption::target(pod, REASON, MESSAGE, tracks, now);
    Some(json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}))
}
