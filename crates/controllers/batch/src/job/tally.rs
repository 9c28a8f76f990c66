//! The counts of the pods of a Job, including those that the status does not count yet. Pure.

use std::collections::BTreeMap;

use flyball_api::Uid;
use flyball_api::pod::{Phase, Pod};
use rustc_hash::FxHashSet;

use super::backoff::{Backoff, finished_at};
use super::failure_policy::Meaning;
use super::indexes::Indexes;
use super::view::{View, completion_index, earlier_failures, number};

/// The counts that decisions use.
#[derive(Debug)]
pub struct Tally<'a> {
    /// Pods that have not ended and are not terminating.
    pub active: Vec<&'a Pod>,
    /// Active pods that are ready.
    pub ready: i32,
    /// Terminating pods that have not ended.
    pub terminating: i32,
    /// Succeeded pods, or succeeded indexes of an Indexed Job.
    pub succeeded: i32,
    pub failed: i32,
    /// Consecutive failures, including new ones.
    pub backoff: Backoff,
    /// The counts by index, for an Indexed Job.
    pub indexes: Option<IndexTally<'a>>,
}

/// The counts of an Indexed Job.
#[derive(Debug)]
pub struct IndexTally<'a> {
    /// Succeeded indexes of the status.
    pub recorded: Indexes,
    pub succeeded: Indexes,
    /// Failed indexes, if there is a `backoffLimitPerIndex`.
    pub failed: Option<Indexes>,
    /// The failed pods that are kept until their index has a new pod, which inherits their failure count.
    pub awaiting_successor: BTreeMap<u32, &'a Pod>,
}

impl<'a> Tally<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let status = &view.job.status;
        let uncounted = status.uncounted_terminated_pods.as_ref();
        let known = |uids: Option<&'a [Uid]>| uids.unwrap_or_default().iter().collect::<FxHashSet<_>>();
        let known_succeeded = known(uncounted.map(|uncounted| &uncounted.succeeded[..]));
        let known_failed = known(uncounted.map(|uncounted| &uncounted.failed[..]));
        let fresh = |known: &FxHashSet<&Uid>, ended: &dyn Fn(&Pod) -> bool| {
            let pods = view.pods.iter().map(|pod| &**pod).filter(|pod| {
                view.is_tracked(pod) && !known.contains(&pod.metadata.uid) && view.is_valid(pod) && ended(pod)
            });
            pods.collect::<Vec<&Pod>>()
        };
        let succeeded = fresh(&known_succeeded, &|pod| pod.status.phase == Phase::Succeeded);
        let failed = fresh(&known_failed, &|pod| view.is_failed(pod));
        let counting = failed.iter().filter(|pod| view.meaning(pod).counts()).count();

        let active: Vec<&Pod> = view.active().collect();
        let indexes = view.is_indexed().then(|| IndexTally::of(view, &active));
        Self {
            ready: number(active.iter().filter(|pod| pod.is_ready()).count()),
            active,
            terminating: number(view.pods.iter().filter(|pod| pod.is_terminating()).count()),
            succeeded: match &indexes {
                Some(indexes) => number(indexes.succeeded.total()),
                None => status.succeeded.saturating_add(number(succeeded.len() + known_succeeded.len())),
            },
            failed: status.failed.saturating_add(number(counting + known_failed.len())),
            backoff: view.backoff.after(&succeeded, &failed),
            indexes,
        }
    }
}

impl<'a> IndexTally<'a> {
    fn of(view: &View<'a>, active: &[&'a Pod]) -> Self {
        let completions = view.completions();
        let tracked = || view.pods.iter().map(|pod| &**pod).filter(|pod| view.is_tracked(pod));
        let recorded = Indexes::parse(&view.job.status.completed_indexes, completions);
        let fresh = tracked().filter(|pod| pod.status.phase == Phase::Succeeded);
        let succeeded = recorded.union(&fresh.filter_map(|pod| view.index(pod)).collect());

        let Some(limit) = view.limit_per_index() else {
            return Self { recorded, succeeded, failed: None, awaiting_successor: BTreeMap::new() };
        };
        let known = Indexes::parse(view.job.status.failed_indexes.as_deref().unwrap_or(""), completions);
        let lost = tracked().filter(|pod| loses_index(view, pod, limit));
        let failed = known.union(&lost.filter_map(|pod| view.index(pod)).collect());

        let busy: Indexes = active.iter().filter_map(|pod| completion_index(pod)).collect();
        let mut awaiting_successor = BTreeMap::<u32, &Pod>::new();
        for pod in tracked().filter(|pod| view.is_failed(pod)) {
            let Some(index) = view.index(pod) else { continue };
            if succeeded.has(index) || failed.has(index) || busy.has(index) {
                continue;
            }
            let held = awaiting_successor.entry(index).or_insert(pod);
            if all_failures(held) <= all_failures(pod) && finished_at(held) <= finished_at(pod) {
                *held = pod;
            }
        }
        Self { recorded, succeeded, failed: Some(failed), awaiting_successor }
    }
}

/// Failures of the index before the pod, counted or ignored.
pub(super) fn all_failures(pod: &Pod) -> i32 {
    let (counted, ignored) = earlier_failures(pod);
    counted.saturating_add(ignored)
}

/// Whether the failure of this pod exceeds the limit of its index, or a policy rule fails the index.
fn loses_index(view: &View<'_>, pod: &Pod, limit: i32) -> bool {
    view.is_failed(pod)
        && match view.meaning(pod) {
            Meaning::FailsIndex => true,
            meaning => meaning.counts() && earlier_failures(pod).0 >= limit,
        }
}
