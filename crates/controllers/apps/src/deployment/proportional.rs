//! Proportional scaling: a Deployment that is scaled during a rollout, or while paused, distributes the new pods over its
//! ReplicaSets in proportion to their sizes, so that a bad rollout does not get them all. Pure.

use flyball_api::ReplicaSet;

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, size, with_sizes};
use super::decision::{Action, View};
use super::fleet::{Fleet, by_age, replicas};

/// Whether `spec.replicas` has changed since the sets with pods were last scaled.
///
/// The Recreate strategy does not scale in proportion: with pods of several templates its rollout decides.
/// Upstream: sync.go, scale: does nothing then, and never continues with the rollout; here the rollout continues.
pub fn is_due(view: &View<'_>, fleet: &Fleet<'_>) -> bool {
    let can_scale = view.limits.is_rolling() || fleet.active().count() <= 1;
    can_scale && fleet.active().any(|set| is_outdated(view, set))
}

fn is_outdated(view: &View<'_>, set: &ReplicaSet) -> bool {
    size(&set.metadata.annotations, DESIRED_REPLICAS).is_some_and(|recorded| recorded != view.limits.desired)
}

/// The writes that bring the sets to `spec.replicas`.
pub fn steps<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    let active: Vec<_> = fleet.active().collect();
    match active.as_slice() {
        [] => fleet.new.or(fleet.old.last().copied()).and_then(|set| resize(view, set)).into_iter().collect(),
        [only] => resize(view, only).into_iter().collect(),
        _ if fleet.new.is_some_and(|new| is_saturated(view, new)) => {
            let down = |set| Action::Scale { set, from: replicas(set), to: 0 };
            fleet.active_old().map(down).collect()
        }
        _ if view.limits.is_rolling() => spread(view, active),
        _ => vec![],
    }
}

/// Scales the only set that has to be scaled.
fn resize<'a>(view: &View<'_>, set: &'a ReplicaSet) -> Option<Action<'a>> {
    let (from, to) = (replicas(set), view.limits.desired);
    // A set with the right size and outdated size annotations would block every later rollout.
    let stuck = from > 0 && is_outdated(view, set);
    (from != to || stuck).then_some(Action::Scale { set, from, to })
}

/// Whether the new set has all desired pods, by its spec and its status.
fn is_saturated(view: &View<'_>, new: &ReplicaSet) -> bool {
    let desired = view.limits.desired;
    replicas(new) == desired
        && i64::from(new.status.available_replicas) == desired
        && size(&new.metadata.annotations, DESIRED_REPLICAS) == Some(desired)
}

/// Distributes the pods to add or remove. The largest set gets the rest that rounding leaves; of equal sets the newest is
/// scaled up first and the oldest down first.
fn spread<'a>(view: &View<'_>, mut sets: Vec<&'a ReplicaSet>) -> Vec<Action<'a>> {
    let limits = &view.limits;
    let allowed = if limits.desired > 0 { limits.most() } else { 0 };
    let change = allowed - sets.iter().map(|set| replicas(set)).sum::<i64>();
    sets.sort_by(|one, two| {
        let older = by_age(one, two);
        replicas(two).cmp(&replicas(one)).then(if change > 0 { older.reverse() } else { older })
    });
    let mut done = 0;
    let mut sizes: Vec<i64> = vec![];
    for set in &sets {
        let left = change - done;
        let share = match change {
            0 => 0,
            _ if change > 0 => share(view, set).min(left),
            // With a wrong size annotation the share of a set could have the wrong sign.
            _ => share(view, set).min(0).max(left),
        };
        sizes.push(replicas(set) + share);
        done += share;
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + change - done).max(0);
    }
    let changes = sets.into_iter().zip(sizes);
    changes.filter_map(|(set, to)| rescale(view, set, to)).collect()
}

/// A write, if the size or the size annotations have to change.
fn rescale<'a>(view: &View<'_>, set: &'a ReplicaSet, to: i64) -> Option<Action<'a>> {
    let (held, limits) = (&set.metadata.annotations, &view.limits);
    let right = replicas(set) == to && with_sizes(held, limits.desired, limits.most()) == *held;
    (!right).then_some(Action::Scale { set, from: replicas(set), to })
}

/// By how much a set changes if it keeps its share of the whole. The whole is in its annotation; without one it is the
/// present number of pods.
fn share(view: &View<'_>, set: &ReplicaSet) -> i64 {
    let (limits, held) = (&view.limits, replicas(set));
    if limits.desired == 0 {
        return -held;
    }
    let recorded = size(&set.metadata.annotations, MAX_REPLICAS).filter(|recorded| *recorded > 0);
    let before = recorded.unwrap_or(i64::from(view.deployment.status.replicas));
    match before {
        ..=0 => 0,
        _ => (held as f64 * limits.most() as f64 / before as f64).round() as i64 - held,
    }
}
