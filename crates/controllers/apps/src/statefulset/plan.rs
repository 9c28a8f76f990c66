//! Which pods to make, repair and delete, and what is waited for. Pure.
//!
//! In order: every wanted pod, from the first; then the claims of pods that are not wanted any more; then these
//! pods, from the last; then pods of old revisions, from the last. An ordered set goes on only when a pod is
//! there, ready and available; a parallel one does not wait, except while it updates.

use flyball_api::PersistentVolumeClaim;
use flyball_api::intstr::InvalidPercentage;
use flyball_api::pod::{Phase, Pod};

use super::identity::{self, has_its_storage, is_itself};
use super::retention::{Ownership, judge};
use super::view::{Roster, View, is_running_and_ready};

/// Most missing pods that one sync of a parallel set looks at. The rest comes with the next.
pub const BURST: usize = 500;

/// The annotation on a StatefulSet by which its user asks for pods that are stuck to be replaced: with the value
/// `true`, a pod of an outdated revision that is not ready no longer holds up an ordered rollout.
///
/// Upstream leaves such a pod for a person to delete (kubernetes/kubernetes#67250), and so do we without it.
pub const REPLACE_STUCK_PODS: &str = "flyball.dev/replace-stuck-pods";

/// One step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action<'a> {
    /// Make a pod, and its claims before it.
    Create {
        /// Its number.
        ordinal: i32,
        /// The revision it is made from.
        revision: &'a str,
    },
    /// Make the claims that a waiting pod lacks, and see to their owners.
    ProvideClaims {
        /// Its number.
        ordinal: i32,
        /// Which.
        pod: &'a Pod,
    },
    /// Give a pod its identity, its storage and the right owners of its claims.
    Repair {
        /// Its number.
        ordinal: i32,
        /// Which.
        pod: &'a Pod,
    },
    /// See to the owners of the claims of a pod that is not wanted any more.
    HandOverClaims {
        /// Its number.
        ordinal: i32,
        /// Which.
        pod: &'a Pod,
    },
    /// Delete a pod.
    Delete {
        /// Which.
        pod: &'a Pod,
        /// Why.
        why: Why,
    },
}

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It has ended; another takes its place.
    Finished,
    /// Its number is not wanted any more.
    ScaledDown,
    /// It is of an old revision.
    Outdated,
    /// It is of an old revision, not ready, and holds up the others.
    Stuck,
}

impl Why {
    /// In words, for the decision log.
    pub fn text(self) -> &'static str {
        match self {
            Self::Finished => "it has ended and another is to take its place",
            Self::ScaledDown => "its ordinal is not wanted any more",
            Self::Outdated => "it is of an old revision",
            Self::Stuck => {
                "it is of an old revision, not ready, and the user asked for such pods to be replaced"
            }
        }
    }
}

/// What an ordered set, or an update, waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The pod is there.
    Created,
    /// The pod is gone.
    Gone,
    /// The pod is ready.
    Ready,
    /// The pod has been ready for long enough.
    Available,
    /// The claims of an earlier pod are gone.
    ClaimsGone,
    /// The first part of many pods is there.
    BurstDone,
}

/// What to do, and what is awaited before anything further is done.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// Stages that follow each other, each with the steps of one pod after the other. A stage that fails is the last.
    pub stages: Vec<Stage<'a>>,
    /// The number of the pod that holds up the rest, and what it takes to go on.
    pub waiting: Option<(i32, Until)>,
}

/// Steps that do not depend on each other, but for those of one pod. Pods that need none are there, too: batches are
/// counted in pods.
pub type Stage<'a> = Vec<Vec<Action<'a>>>;

/// The steps that bring the pods closer to what the set asks for.
///
/// # Errors
/// `maxUnavailable` makes no sense.
pub fn plan<'a>(view: &View<'a>) -> Result<Plan<'a>, InvalidPercentage> {
    let mut plan = Plan::default();
    if view.set.metadata.is_deleting() {
        return Ok(plan);
    }
    let roster = Roster::of(view);
    let goes_on = plan.add(replicas(view, &roster))
        && plan.add(hand_over(view, &roster))
        && plan.add(condemned(view, &roster));
    if goes_on && view.is_rolling() {
        plan.add(update(view, &roster)?);
    }
    Ok(plan)
}

impl<'a> Plan<'a> {
    /// Adds a stage; says whether another may follow.
    fn add(&mut self, (stage, waiting): (Stage<'a>, Option<(i32, Until)>)) -> bool {
        if stage.iter().any(|steps| !steps.is_empty()) {
            self.stages.push(stage);
        }
        self.waiting = waiting;
        waiting.is_none()
    }
}

/// The wanted pods, from the first.
fn replicas<'a>(view: &View<'a>, roster: &Roster<'a>) -> (Stage<'a>, Option<(i32, Until)>) {
    let mut stage = vec![];
    let mut missed = 0;
    for ordinal in view.ordinals() {
        let (steps, until) = match roster.replicas.get(&ordinal) {
            Some(pod) => living(view, ordinal, pod),
            None => missing(view, ordinal),
        };
        missed += usize::from(!roster.replicas.contains_key(&ordinal));
        stage.push(steps);
        if missed == BURST {
            return (stage, Some((ordinal, Until::BurstDone)));
        }
        if let Some(until) = until.filter(|_| view.is_ordered()) {
            return (stage, Some((ordinal, until)));
        }
    }
    (stage, None)
}

fn missing<'a>(view: &View<'a>, ordinal: i32) -> (Vec<Action<'a>>, Option<Until>) {
    if view.has_left_overs(ordinal) {
        return (vec![], Some(Until::ClaimsGone));
    }
    (vec![Action::Create { ordinal, revision: view.revision_for(ordinal) }], Some(Until::Created))
}

fn living<'a>(view: &View<'a>, ordinal: i32, pod: &'a Pod) -> (Vec<Action<'a>>, Option<Until>) {
    let is_deleting = pod.metadata.is_deleting();
    if pod.is_finished() {
        // Whether it ended well does not matter: a pod that was stopped from outside may have, too.
        let delete = (!is_deleting).then_some(Action::Delete { pod, why: Why::Finished });
        return (delete.into_iter().collect(), Some(Until::Gone));
    }
    let mut steps = vec![];
    if pod.status.phase == Phase::Pending && lacks_claims(view, ordinal, pod) {
        steps.push(Action::ProvideClaims { ordinal, pod });
    }
    if view.is_ordered() {
        let until = match () {
            () if is_deleting => Some(Until::Gone),
            () if is_stuck(view, ordinal, pod) => {
                steps.push(Action::Delete { pod, why: Why::Stuck });
                Some(Until::Gone)
            }
            () if !is_running_and_ready(pod) => Some(Until::Ready),
            () if !view.is_available(pod) => Some(Until::Available),
            () => None,
        };
        if until.is_some() {
            return (steps, until);
        }
    }
    let is_right =
        is_itself(view.set, pod) && has_its_storage(view.set, pod) && view.has_right_owners(ordinal, pod);
    if !is_right {
        steps.push(Action::Repair { ordinal, pod });
    }
    (steps, None)
}

/// Whether a claim of a pod is missing, about to go, or owned by the wrong one.
fn lacks_claims(view: &View<'_>, ordinal: i32, pod: &Pod) -> bool {
    let holder = view.holder(ordinal, Some(pod));
    let is_fine = |claim: &PersistentVolumeClaim| {
        !claim.metadata.is_deleting() && judge(claim, view.set, &holder) == Ownership::default()
    };
    let claims = &view.claims;
    !identity::claim_names(view.set, ordinal)
        .all(|name| claims.get(&name).is_some_and(|claim| is_fine(claim)))
}

/// Whether the user wants a pod replaced that will never let the rollout go on.
fn is_stuck(view: &View<'_>, ordinal: i32, pod: &Pod) -> bool {
    let asked = view.set.metadata.annotations.get(REPLACE_STUCK_PODS) == Some("true");
    let is_outdated = identity::revision(pod) != view.revision_for(ordinal);
    asked && view.is_rolling() && is_outdated && !is_running_and_ready(pod)
}

/// The claims of pods that are not wanted any more.
fn hand_over<'a>(view: &View<'a>, roster: &Roster<'a>) -> (Stage<'a>, Option<(i32, Until)>) {
    let wrong = roster.condemned.iter().rev().filter(|(ordinal, pod)| !view.has_right_owners(**ordinal, pod));
    (wrong.map(|(&ordinal, &pod)| vec![Action::HandOverClaims { ordinal, pod }]).collect(), None)
}

/// The pods that are not wanted any more, from the last.
fn condemned<'a>(view: &View<'a>, roster: &Roster<'a>) -> (Stage<'a>, Option<(i32, Until)>) {
    let delete = |pod: &'a Pod| vec![Action::Delete { pod, why: Why::ScaledDown }];
    if !view.is_ordered() {
        let all = roster.condemned.values().rev();
        let stage = all.map(|pod| if pod.metadata.is_deleting() { vec![] } else { delete(pod) });
        return (stage.collect(), None);
    }
    let Some((&ordinal, &last)) = roster.condemned.last_key_value() else { return (vec![], None) };
    // Of several pods that do not serve, the first goes first: the others may depend on it.
    let lowest_unavailable = roster.condemned.iter().find(|(_, pod)| view.is_unavailable(pod));
    let is_held_up = lowest_unavailable.is_some_and(|(lowest, _)| *lowest != ordinal);
    if last.metadata.is_deleting() {
        (vec![], Some((ordinal, Until::Gone)))
    } else if is_held_up && !is_running_and_ready(last) {
        (vec![], Some((ordinal, Until::Ready)))
    } else if is_held_up && !view.is_available(last) {
        (vec![], Some((ordinal, Until::Available)))
    } else {
        (vec![delete(last)], Some((ordinal, Until::Gone)))
    }
}

/// Pods of old revisions, from the last.
fn update<'a>(
    view: &View<'a>,
    roster: &Roster<'a>,
) -> Result<(Stage<'a>, Option<(i32, Until)>), InvalidPercentage> {
    // What has ended is replaced as it is.
    let is_old = |pod: &Pod| {
        identity::revision(pod) != view.update && !pod.metadata.is_deleting() && !pod.is_finished()
    };
    let delete = |pod: &'a Pod| vec![Action::Delete { pod, why: Why::Outdated }];
    let in_reach = view.first_updated()..view.ordinals().end;
    if view.obeys_max_unavailable {
        let available = roster.replicas.values().filter(|pod| !view.is_unavailable(pod)).count();
        let unavailable = i64::from(view.wanted()) - i64::try_from(available).unwrap_or(i64::MAX);
        let room = usize::try_from(view.max_unavailable()? - unavailable).unwrap_or(0);
        let old = roster.replicas.range(reachable(&in_reach)).rev().filter(|(_, pod)| is_old(pod));
        return Ok((old.take(room).map(|(_, pod)| delete(pod)).collect(), None));
    }
    for ordinal in in_reach.rev() {
        // A pod that was just asked for is of the right revision, and not there yet.
        let Some(&pod) = roster.replicas.get(&ordinal) else {
            return Ok((vec![], Some((ordinal, Until::Created))));
        };
        if is_old(pod) {
            return Ok((vec![delete(pod)], Some((ordinal, Until::Gone))));
        }
        if view.is_unavailable(pod) {
            return Ok((vec![], Some((ordinal, Until::Available))));
        }
    }
    Ok((vec![], None))
}

/// A range that a map can be asked for: one that is upside down holds nothing.
fn reachable(range: &std::ops::Range<i32>) -> std::ops::Range<i32> {
    range.start.min(range.end)..range.end
}
