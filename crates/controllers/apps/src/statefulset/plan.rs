//! Which pods to create, repair and delete, and what is waited for. Pure.
//!
//! In order: every pod within `spec.replicas`, from the first; then the claims of surplus pods; then these pods, from the
//! last; then pods of old revisions, from the last. An ordered set continues only when a pod exists, is ready and
//! available; a parallel one does not wait, except during an update.

use flyball_api::intstr::InvalidPercentage;
use flyball_api::pod::{Phase, Pod};
use flyball_api::{Key, PersistentVolumeClaim};
use flyball_runtime::plan::{Group, Order};
use flyball_runtime::{Effect, Outcome, Plan, Waiting};

use super::claims::correct_owners;
use super::identity::{self, has_its_storage, is_itself};
use super::pods;
use super::retention::{Ownership, ownership};
use super::status::time_to_available;
use super::view::{Roster, View, is_running_and_ready};

/// The most missing pods that one sync of a parallel set creates. The next sync continues.
pub const BURST: usize = 500;

/// The annotation of a StatefulSet that enables the replacement of stuck pods: with the value `true`, an unready pod of an
/// outdated revision no longer blocks an ordered rollout.
///
/// Upstream requires a user to delete such a pod (kubernetes/kubernetes#67250), as this controller does without the
/// annotation.
pub const REPLACE_STUCK_PODS: &str = "flyball.dev/replace-stuck-pods";

/// One step for a pod. Deletions of pods are tagged with their reason.
pub type Step = Effect<Option<Why>>;

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It has ended and is replaced.
    Finished,
    /// Its ordinal is beyond `spec.replicas`.
    ScaledDown,
    /// It is of an old revision.
    Outdated,
    /// It is of an old revision, not ready, and blocks the rollout.
    Stuck,
}

impl Why {
    /// For the decision log.
    pub fn text(self) -> &'static str {
        match self {
            Self::Finished => "it has ended and is replaced",
            Self::ScaledDown => "its ordinal is beyond the number of replicas",
            Self::Outdated => "it is of an old revision",
            Self::Stuck => "it is of an old revision, not ready, and the annotation enables its replacement",
        }
    }
}

/// Steps for pods that do not depend on each other, and what the next stage waits for. Pods without a step are included,
/// as they count in the size of a batch.
type Stage = (Vec<Vec<Step>>, Option<Waiting>);

/// The state that a pod must reach before an ordered set, or an update, continues.
mod until {
    pub(super) const CREATED: &str = "to be created";
    pub(super) const DELETED: &str = "to be deleted";
    pub(super) const READY: &str = "to become ready";
    pub(super) const AVAILABLE: &str = "to become available";
}

/// The steps for the pods of a set.
///
/// # Errors
/// `maxUnavailable` is neither a number nor a percentage.
pub fn plan(view: &View<'_>) -> Result<Plan<Option<Why>>, InvalidPercentage> {
    let mut plan = Plan::default().again_after(time_to_available(view));
    if view.set.metadata.is_deleting() {
        return Ok(plan);
    }
    let (roster, order) =
        (Roster::of(view), if view.is_ordered() { Order::Sequence } else { Order::SlowStart });
    let goes_on = add(&mut plan, order, replicas(view, &roster))
        && add(&mut plan, order, hand_over(view, &roster))
        && add(&mut plan, order, condemned(view, &roster));
    if goes_on && view.is_rolling() {
        add(&mut plan, Order::Sequence, update(view, &roster)?);
    }
    Ok(plan)
}

/// How many pods of old revisions were deleted.
pub fn outdated(outcome: &Outcome<Option<Why>>) -> i32 {
    let deleted = outcome.done.iter().filter(|done| done.tag == Some(Why::Outdated)).count();
    i32::try_from(deleted).unwrap_or(i32::MAX)
}

/// Adds a stage to the plan; returns whether another may follow.
fn add(plan: &mut Plan<Option<Why>>, order: Order, (pods, waiting): Stage) -> bool {
    if pods.iter().any(|steps| !steps.is_empty()) {
        plan.push(Group::new(order, pods.into_iter().map(Step::sequence)));
    }
    plan.waiting.extend(waiting);
    plan.waiting.is_empty()
}

/// The pods within `spec.replicas`, from the first.
fn replicas(view: &View<'_>, roster: &Roster<'_>) -> Stage {
    let (mut pods, mut missed) = (vec![], 0);
    for ordinal in view.ordinals() {
        let pod = roster.replicas.get(&ordinal);
        let (steps, waiting) = pod.map_or_else(|| missing(view, ordinal), |pod| living(view, ordinal, pod));
        pods.push(steps);
        missed += usize::from(pod.is_none());
        if missed == BURST || view.is_ordered() && waiting.is_some() {
            return (pods, waiting);
        }
    }
    (pods, None)
}

fn missing(view: &View<'_>, ordinal: i32) -> (Vec<Step>, Option<Waiting>) {
    match view.left_over(ordinal) {
        Some(claim) => {
            (vec![], Some(Waiting::on::<PersistentVolumeClaim>(&claim.metadata.key(), until::DELETED)))
        }
        None => (vec![pods::create(view, ordinal)], Some(creation(view, ordinal))),
    }
}

fn living(view: &View<'_>, ordinal: i32, pod: &Pod) -> (Vec<Step>, Option<Waiting>) {
    let is_deleting = pod.metadata.is_deleting();
    if pod.is_finished() {
        // A pod that was stopped from outside may have succeeded, too, so it is replaced as well.
        let delete = (!is_deleting).then(|| pods::delete(view.set, pod, Why::Finished));
        return (delete.into_iter().collect(), Some(on(pod, until::DELETED)));
    }
    let mut steps = vec![];
    if pod.status.phase == Phase::Pending && lacks_claims(view, ordinal, pod) {
        steps.extend(pods::provide_claims(view, ordinal, pod));
    }
    if view.is_ordered() {
        let until = match () {
            () if is_deleting => Some(until::DELETED),
            () if is_stuck(view, ordinal, pod) => {
                steps.push(pods::delete(view.set, pod, Why::Stuck));
                Some(until::DELETED)
            }
            () if !is_running_and_ready(pod) => Some(until::READY),
            () if !view.is_available(pod) => Some(until::AVAILABLE),
            () => None,
        };
        if let Some(until) = until {
            return (steps, Some(on(pod, until)));
        }
    }
    let is_right =
        is_itself(view.set, pod) && has_its_storage(view.set, pod) && view.has_right_owners(ordinal, pod);
    if !is_right {
        steps.push(pods::repair(view, ordinal, pod));
    }
    (steps, None)
}

/// Whether a claim of a pod is missing, being deleted, or owned by the wrong object.
fn lacks_claims(view: &View<'_>, ordinal: i32, pod: &Pod) -> bool {
    let holder = view.holder(ordinal, Some(pod));
    let is_fine = |claim: &PersistentVolumeClaim| {
        !claim.metadata.is_deleting() && ownership(claim, view.set, &holder) == Ownership::default()
    };
    let claims = &view.claims;
    !identity::claim_names(view.set, ordinal)
        .all(|name| claims.get(&name).is_some_and(|claim| is_fine(claim)))
}

/// Whether a pod blocks the rollout and the user has enabled its replacement.
fn is_stuck(view: &View<'_>, ordinal: i32, pod: &Pod) -> bool {
    let asked = view.set.metadata.annotations.get(REPLACE_STUCK_PODS) == Some("true");
    let is_outdated = identity::revision(pod) != view.revision_for(ordinal);
    asked && view.is_rolling() && is_outdated && !is_running_and_ready(pod)
}

/// The claims of surplus pods.
fn hand_over(view: &View<'_>, roster: &Roster<'_>) -> Stage {
    let wrong = roster.condemned.iter().rev().filter(|(ordinal, pod)| !view.has_right_owners(**ordinal, pod));
    let correct = |(&ordinal, &pod): (&i32, &&Pod)| vec![correct_owners(view, ordinal, Some(pod)).into()];
    (wrong.map(correct).collect(), None)
}

/// The surplus pods, from the last.
fn condemned(view: &View<'_>, roster: &Roster<'_>) -> Stage {
    let delete = |pod: &Pod| vec![pods::delete(view.set, pod, Why::ScaledDown)];
    if !view.is_ordered() {
        let all = roster.condemned.values().rev();
        let pods = all.map(|pod| if pod.metadata.is_deleting() { vec![] } else { delete(pod) });
        return (pods.collect(), None);
    }
    let Some((ordinal, &last)) = roster.condemned.last_key_value() else { return (vec![], None) };
    // Of several unavailable pods, the first is waited for first: the others may depend on it. A pod may be available by its
    // conditions and yet not run.
    let lowest_unavailable = roster.condemned.iter().find(|(_, pod)| view.is_unavailable(pod));
    let is_held_up = lowest_unavailable.is_none_or(|(lowest, _)| lowest != ordinal);
    if last.metadata.is_deleting() {
        (vec![], Some(on(last, until::DELETED)))
    } else if is_held_up && !is_running_and_ready(last) {
        (vec![], Some(on(last, until::READY)))
    } else if is_held_up && !view.is_available(last) {
        (vec![], Some(on(last, until::AVAILABLE)))
    } else {
        (vec![delete(last)], Some(on(last, until::DELETED)))
    }
}

/// Pods of old revisions, from the last.
fn update(view: &View<'_>, roster: &Roster<'_>) -> Result<Stage, InvalidPercentage> {
    // Finished pods are replaced in any case.
    let is_old = |pod: &Pod| {
        identity::revision(pod) != view.update() && !pod.metadata.is_deleting() && !pod.is_finished()
    };
    let delete = |pod: &Pod| vec![pods::delete(view.set, pod, Why::Outdated)];
    let in_reach = view.first_updated()..view.ordinals().end;
    if view.obeys_max_unavailable {
        let available = roster.replicas.values().filter(|pod| !view.is_unavailable(pod)).count();
        let unavailable = i64::from(view.wanted()) - i64::try_from(available).unwrap_or(i64::MAX);
        let room = usize::try_from(view.max_unavailable()? - unavailable).unwrap_or(0);
        let old = roster.replicas.range(reachable(&in_reach)).rev().filter(|(_, pod)| is_old(pod));
        return Ok((old.take(room).map(|(_, pod)| delete(pod)).collect(), None));
    }
    for ordinal in in_reach.rev() {
        // A pod that was just created is of the right revision, and not in the cache yet.
        let Some(&pod) = roster.replicas.get(&ordinal) else {
            return Ok((vec![], Some(creation(view, ordinal))));
        };
        if is_old(pod) {
            return Ok((vec![delete(pod)], Some(on(pod, until::DELETED))));
        }
        if view.is_unavailable(pod) {
            return Ok((vec![], Some(on(pod, until::AVAILABLE))));
        }
    }
    Ok((vec![], None))
}

fn on(pod: &Pod, until: &'static str) -> Waiting {
    Waiting::on::<Pod>(&pod.metadata.key(), until)
}

/// Waits for the creation of the pod with this ordinal.
fn creation(view: &View<'_>, ordinal: i32) -> Waiting {
    let (namespace, name) = (&view.set.metadata.namespace, identity::pod_name(view.set, ordinal));
    Waiting::on::<Pod>(&Key::new(namespace.as_str(), name.as_str()), until::CREATED)
}

/// A range for a map lookup; an inverted range becomes empty.
fn reachable(range: &std::ops::Range<i32>) -> std::ops::Range<i32> {
    range.start.min(range.end)..range.end
}
