//! Which pods to make or delete next. Pure.

use std::cmp::Ordering;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_common::spare::Usefulness;

use super::backoff::{self, finished_at};
use super::indexes::Indexes;
use super::tally::{Tally, all_failures};
use super::verdict::End;
use super::view::{View, completion_index, earlier_failures, number};

/// Most pods that one sync makes or deletes, so that one huge Job cannot starve the others.
pub const BURST: usize = 500;

/// What is to be done about the pods. Never both making and deleting.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// Nothing: the numbers are right, or the Job is being deleted.
    Nothing,
    /// The Job has ended: delete these pods, which still count.
    Stop(Vec<&'a Pod>),
    /// Delete these pods and do not count them: there are too many, or the Job is suspended.
    Discard(Vec<&'a Pod>),
    /// Make these.
    Create(Vec<NewPod>),
    /// Make some after this long: the last failure is too fresh.
    Wait(Duration),
}

/// A pod to make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewPod {
    /// Its index.
    pub index: Option<u32>,
    /// The failures of its index so far, counted and ignored, where indexes have limits of their own.
    pub failures: Option<(i32, i32)>,
}

/// The next step.
pub fn plan<'a>(view: &View<'a>, tally: &Tally<'a>, end: Option<&End>) -> Step<'a> {
    if end.is_some() {
        return Step::Stop(tally.active.clone());
    }
    if view.job.metadata.is_deleting() {
        return Step::Nothing;
    }
    if view.job.spec.is_suspended() {
        return Step::Discard(surplus(view, tally, tally.active.len()));
    }
    let (have, want) = (tally.active.len(), wanted(view, tally));
    let mut surplus = surplus(view, tally, have.saturating_sub(want));
    if !surplus.is_empty() {
        surplus.truncate(BURST);
        return Step::Discard(surplus);
    }
    let ending =
        if view.replaces_only_failed() { usize::try_from(tally.terminating).unwrap_or(0) } else { 0 };
    match want.saturating_sub(have + ending).min(BURST) {
        0 => Step::Nothing,
        count => create(view, tally, count),
    }
}

/// How many pods should be active.
pub fn wanted(view: &View<'_>, tally: &Tally<'_>) -> usize {
    let parallelism = view.job.spec.parallelism.unwrap_or(1);
    let wanted = match view.job.spec.completions {
        // After the first success no more are started, and those that run are left alone.
        None if tally.succeeded > 0 => return tally.active.len(),
        None => parallelism,
        Some(completions) => parallelism.min(completions.saturating_sub(tally.succeeded)),
    };
    usize::try_from(wanted).unwrap_or(0)
}

fn create<'a>(view: &View<'a>, tally: &Tally<'a>, count: usize) -> Step<'a> {
    let Some(indexes) = &tally.indexes else {
        let wait = tally.backoff.remaining(view.now);
        return if wait.is_zero() { Step::Create(vec![NewPod::default(); count]) } else { Step::Wait(wait) };
    };
    let wait = tally.backoff.remaining(view.now);
    if view.limit_per_index().is_none() && !wait.is_zero() {
        return Step::Wait(wait);
    }
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
    match waits.into_iter().min() {
        Some(wait) if new.is_empty() => Step::Wait(wait),
        _ if new.is_empty() => Step::Nothing,
        _ => Step::Create(new),
    }
}

/// What is left of the wait after the failure of an index's last pod.
fn index_wait(view: &View<'_>, last: &Pod) -> Duration {
    let failures = u32::try_from(all_failures(last)).unwrap_or(0).saturating_add(1);
    backoff::remaining(failures, finished_at(last), view.now)
}

/// The failures of an index, with that of its last pod.
fn failures(view: &View<'_>, last: &Pod) -> (i32, i32) {
    let (counted, ignored) = earlier_failures(last);
    match view.meaning(last).counts() {
        true => (counted.saturating_add(1), ignored),
        false => (counted, ignored.saturating_add(1)),
    }
}

/// The first `count` indexes that have neither ended nor an active pod, nor, where only ended pods are replaced,
/// one that is still ending.
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

/// At least `count` pods that can best be spared; of an Indexed Job, first those without a proper index and all
/// but the most useful one of each index.
fn surplus<'a>(view: &View<'a>, tally: &Tally<'a>, count: usize) -> Vec<&'a Pod> {
    let (mut spare, mut rest) = (vec![], tally.active.clone());
    if view.is_indexed() {
        // By index, and within one the most useful last.
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

impl Step<'_> {
    /// How metrics call it.
    pub fn name(&self, view: &View<'_>) -> &'static str {
        match self {
            Self::Stop(_) => "reconciling",
            _ if view.job.metadata.is_deleting() => "reconciling",
            Self::Discard(_) => "pods_deleted",
            Self::Create(_) | Self::Wait(_) => "pods_created",
            Self::Nothing => "tracking",
        }
    }

    /// What is done, for the log.
    pub fn why(&self, view: &View<'_>, tally: &Tally<'_>, end: Option<&End>) -> String {
        let (have, want) = (number(tally.active.len()), number(wanted(view, tally)));
        match (self, end) {
            (Self::Stop(_), Some(end)) => format!("the Job has ended: {}", end.message),
            (Self::Discard(_), _) if view.job.spec.is_suspended() => "the Job is suspended".to_owned(),
            _ => format!(
                "{have} active pods, {want} wanted; {} succeeded, {} failed",
                tally.succeeded, tally.failed
            ),
        }
    }
}
