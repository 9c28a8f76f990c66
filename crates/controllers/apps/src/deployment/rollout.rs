//! The rolling update: each step either scales up the new ReplicaSet within `maxSurge`, or scales down old ones within
//! `maxUnavailable`. Pure.

use flyball_api::ReplicaSet;

use super::decision::{Action, View, finish};
use super::fleet::{Fleet, available, is_behind, replicas};
use super::limits::Limits;
use super::new_replica_set::ensure;

/// The numbers of a set that the arithmetic needs.
#[derive(Debug, Clone, Copy)]
struct Size<'a> {
    set: &'a ReplicaSet,
    replicas: i64,
    available: i64,
}

/// The next step: scale up, or else scale down, or else clean up.
pub fn steps<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    let mut actions = ensure(view, fleet);
    let (new_replicas, new_available) = match fleet.new {
        Some(set) => (replicas(set), available(set)),
        None => (size_of_new(&view.limits, fleet.replicas(), 0), 0),
    };
    if let Some(set) = fleet.new {
        let to = size_of_new(&view.limits, fleet.replicas(), new_replicas);
        if to != new_replicas {
            actions.push(Action::Scale { set, from: new_replicas, to });
            return actions;
        }
    }
    let down = shrink_old(&view.limits, fleet, new_replicas, new_available);
    match down.is_empty() {
        true => actions.extend(finish(view, fleet)),
        false => actions.extend(down),
    }
    actions
}

/// The size of the new set if all sets together have `total` pods and it has `new`: as large as the surge allows, but
/// not larger than `spec.replicas`.
pub fn size_of_new(limits: &Limits, total: i64, new: i64) -> i64 {
    let room = (limits.most() - total).max(0);
    match new > limits.desired {
        true => limits.desired,
        false => new + room.min(limits.desired - new),
    }
}

/// Scales down old sets as far as enough pods stay available. Unavailable pods of the new set do not replace available
/// old ones.
fn shrink_old<'a>(
    limits: &Limits,
    fleet: &Fleet<'a>,
    new_replicas: i64,
    new_available: i64,
) -> Vec<Action<'a>> {
    let mut old: Vec<Size<'a>> = fleet
        .active_old()
        .map(|set| Size { set, replicas: replicas(set), available: available(set) })
        .collect();
    let total = old.iter().map(|size| size.replicas).sum::<i64>() + new_replicas;
    let spare = total - limits.least_available() - (new_replicas - new_available);
    if spare <= 0 {
        return vec![];
    }
    // Unavailable pods go first: otherwise they could block the rollout forever (kubernetes/kubernetes#16737). A set
    // deletes such pods before any others.
    let known = old.iter().position(|size| is_behind(size.set)).unwrap_or(old.len());
    let mut actions = take(&mut old[..known], spare, |size| size.replicas - size.available);
    let left = spare - actions.iter().map(Action::taken).sum::<i64>();
    if known < old.len() && left > 0 {
        // This set shows more available pods than it should have, so its status is stale.
        return actions;
    }
    let available = old.iter().map(|size| size.available).sum::<i64>() + new_available;
    actions.extend(take(&mut old, available - limits.least_available(), |size| size.replicas));
    actions
}

/// Removes up to `count` pods from the sets, oldest set first, and at most `most` from each.
fn take<'a>(sizes: &mut [Size<'a>], count: i64, most: impl Fn(&Size<'_>) -> i64) -> Vec<Action<'a>> {
    let mut left = count;
    let mut actions = vec![];
    for size in sizes {
        let taken = most(size).min(left);
        if taken > 0 {
            let (from, to) = (size.replicas, size.replicas - taken);
            actions.push(Action::Scale { set: size.set, from, to });
            size.replicas = to;
            left -= taken;
        }
    }
    actions
}
