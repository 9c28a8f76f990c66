//! Scaling: a Deployment in the middle of a rollout, or paused in it, spreads new pods over its ReplicaSets in
//! proportion to their sizes, so that a bad rollout does not get them all.

use flyball_api::ReplicaSet;

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, size, with_sizes};
use super::decision::{Action, View};
use super::fleet::{Fleet, by_age, replicas};

/// Whether the wanted number has changed since the sets with pods were last scaled.
///
/// Recreate has no proportions: with pods of several templates there, only its rollout can tell what to do.
/// Upstream: sync.go, scale: does nothing then, and so never gets to that rollout; here it goes on.
pub fn is_due(view: &View<'_>, fleet: &Fleet<'_>) -> bool {
    let can_scale = view.limits.is_rolling() || fleet.active().count() <= 1;
    can_scale && fleet.active().any(|set| is_outdated(view, set))
}

fn is_outdated(view: &View<'_>, set: &ReplicaSet) -> bool {
    size(&set.metadata.annotations, DESIRED_REPLICAS).is_some_and(|noted| noted != view.limits.desired)
}

/// The writes that bring the sets to the wanted number.
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

/// The only set there is to scale takes it all.
fn resize<'a>(view: &View<'_>, set: &'a ReplicaSet) -> Option<Action<'a>> {
    let (from, to) = (replicas(set), view.limits.desired);
    // A set that has the right size and an outdated note of it would hold up every later rollout.
    let stuck = from > 0 && is_outdated(view, set);
    (from != to || stuck).then_some(Action::Scale { set, from, to })
}

/// Whether the new set alone is all that is wanted, by its own account, too.
fn is_saturated(view: &View<'_>, new: &ReplicaSet) -> bool {
    let desired = view.limits.desired;
    replicas(new) == desired
        && i64::from(new.status.available_replicas) == desired
        && size(&new.metadata.annotations, DESIRED_REPLICAS) == Some(desired)
}

/// Gives each set its share of what is to be added or removed. The largest gets what rounding leaves over;
/// of equals the newest gains and the oldest loses.
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
            // A set whose note is wrong might seem to have a claim to more, when all must shrink.
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

/// A write, if the size or the notes about it are not right yet.
fn rescale<'a>(view: &View<'_>, set: &'a ReplicaSet, to: i64) -> Option<Action<'a>> {
    let (held, limits) = (&set.metadata.annotations, &view.limits);
    let right = replicas(set) == to && with_sizes(held, limits.desired, limits.most()) == *held;
    (!right).then_some(Action::Scale { set, from: replicas(set), to })
}

/// By how much a set changes if it keeps its part of the whole. The whole is what the set was last told; if
/// that note is lost, what there is now.
fn share(view: &View<'_>, set: &ReplicaSet) -> i64 {
    let (limits, held) = (&view.limits, replicas(set));
    if limits.desired == 0 {
        return -held;
    }
    let noted = size(&set.metadata.annotations, MAX_REPLICAS).filter(|noted| *noted > 0);
    let before = noted.unwrap_or(i64::from(view.deployment.status.replicas));
    match before {
        ..=0 => 0,
        _ => (held as f64 * limits.most() as f64 / before as f64).round() as i64 - held,
    }
}
