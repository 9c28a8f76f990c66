//! Revisions: the number of a rollout, the earlier revisions of a ReplicaSet, and the old ReplicaSets beyond the history
//! limit. Pure.

use std::cmp::Ordering;

use flyball_api::{Deployment, Labels, Object, ReplicaSet};

use super::annotations::{REVISION, REVISION_HISTORY, is_shared};
use super::fleet::{Fleet, by_age, replicas};

/// The longest list of earlier revisions in an annotation; the oldest are dropped.
const LONGEST_HISTORY: usize = 2000;
/// The limit that means "keep all".
const NO_LIMIT: i32 = i32::MAX;

/// The revision of a set, zero before it has one; `None` if the annotation is not a number.
pub fn revision(set: &ReplicaSet) -> Option<i64> {
    set.metadata.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// The revision of the set of the current template: one more than the highest of the others.
pub fn next_revision(fleet: &Fleet<'_>) -> i64 {
    fleet.old.iter().filter_map(|set| revision(set)).max().unwrap_or(0).max(0).saturating_add(1)
}

/// The revision before the current one; zero if there is none.
pub fn last_revision(fleet: &Fleet<'_>) -> i64 {
    let mut revisions: Vec<i64> = fleet.all().filter_map(revision).filter(|revision| *revision > 0).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0)
}

/// The annotations of the set of the current template: those of the Deployment, and the `next` revision unless the set
/// has a later one (sets in between may have been deleted). If its revision is not a number, a user has changed it, and the
/// annotations stay as they are.
pub fn revised(deployment: &Deployment, annotations: &Labels, next: i64) -> Labels {
    let held = annotations.get(REVISION);
    let number = held.filter(|text| !text.is_empty()).map_or(Ok(0), str::parse::<i64>);
    let Ok(number) = number else { return annotations.clone() };
    let shared = deployment.metadata.annotations.iter().filter(|(key, _)| is_shared(key));
    let mut revised: Labels = annotations.iter().chain(shared).collect();
    if number >= next {
        return revised;
    }
    if let Some(earlier) = held {
        let history = annotations.get(REVISION_HISTORY).unwrap_or_default();
        revised = revised.with(REVISION_HISTORY, &remembered(history, earlier));
    }
    revised.with(REVISION, &next.to_string())
}

/// A list of revisions with one more; the oldest are dropped if it gets too long.
fn remembered(history: &str, revision: &str) -> String {
    let mut list = history;
    while !list.is_empty() && list.len() + 1 + revision.len() > LONGEST_HISTORY {
        list = list.split_once(',').map_or("", |(_, later)| later);
    }
    if list.is_empty() { revision.to_owned() } else { format!("{list},{revision}") }
}

/// The old sets beyond the history limit, lowest revision first. Sets with pods, and sets whose status is stale, are
/// kept.
pub fn surplus<'a>(deployment: &Deployment, fleet: &Fleet<'a>) -> Vec<&'a ReplicaSet> {
    let Some(limit) = deployment.spec.revision_history_limit.filter(|limit| *limit != NO_LIMIT) else {
        return vec![];
    };
    let mut kept: Vec<_> = fleet.old.iter().copied().filter(|set| !set.is_deleting()).collect();
    kept.sort_by(|one, two| by_revision(one, two));
    let excess = kept.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    kept.truncate(excess);
    kept.retain(|set| is_empty(set));
    kept
}

/// A set whose revision is not a number counts as one of the oldest.
fn by_revision(one: &ReplicaSet, two: &ReplicaSet) -> Ordering {
    let number = |set| revision(set).unwrap_or(0);
    number(one).cmp(&number(two)).then_with(|| by_age(one, two))
}

fn is_empty(set: &ReplicaSet) -> bool {
    replicas(set) == 0
        && set.status.replicas == 0
        && set.metadata.generation <= set.status.observed_generation
}
