//! Which Jobs and which orphaned pods a change concerns. Pure.

use std::fmt;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Job, Key, OwnerReference, Selector, Uid};
use flyball_cache::{Change, Origin, Store};
use flyball_runtime::WorkKey;

use super::view::has_finalizer;

/// Pods that may have a tracking finalizer which no Job will remove any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Orphans {
    Pod(Key),
    /// The pods of a Job that has ended or is gone.
    OfJob(Key, Uid),
}

impl WorkKey for Orphans {
    fn object(&self) -> &Key {
        match self {
            Self::Pod(key) | Self::OfJob(key, _) => key,
        }
    }
}

impl fmt::Display for Orphans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod {key}"),
            Self::OfJob(key, _) => write!(f, "pods of job {key}"),
        }
    }
}

/// What a change of a pod asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Woken {
    pub jobs: Vec<Key>,
    /// The pod itself, if nobody else will free it.
    pub orphan: Option<Orphans>,
}

/// Whose business a change of a pod is: that of its Job, of the one it had before, and, for a pod without a
/// controller, of every Job that could adopt it. A tracked pod that no Job will count is freed.
pub fn pod_changed(change: &Change<'_, Pod>, jobs: &Store<Job>) -> Woken {
    let mut woken = Woken::default();
    if change.origin == Origin::Resync {
        return woken;
    }
    let owner = |pod: &Pod| resolve(jobs, &pod.metadata.namespace, pod.metadata.controller()?);
    let before = change.old.and_then(|pod| owner(pod));
    let after = change.new.and_then(|pod| owner(pod));
    let unfinished = |job: &&Arc<Job>| !job.is_finished();
    // Jobs look at all of their pods when they are first listed.
    if change.origin != Origin::Initial {
        let is_deleting = change.object().metadata.is_deleting() || change.new.is_none();
        let keys = before.iter().chain(&after).filter(|job| !is_deleting || unfinished(job));
        woken.jobs = keys.map(|job| job.metadata.key()).collect();
        woken.jobs.dedup();
        if let Some(orphan) = change.new.filter(|pod| is_free(change, pod)) {
            woken.jobs.extend(adopters(jobs, orphan));
        }
    }
    if let Some(pod) = change.new.filter(|pod| has_finalizer(pod)) {
        let is_lost = match pod.metadata.controller() {
            None => true,
            Some(_) => pod.metadata.is_deleting() && after.as_ref().filter(unfinished).is_none(),
        };
        woken.orphan = is_lost.then(|| Orphans::Pod(pod.metadata.key()));
    }
    woken
}

/// How a change of a Job is to be taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Look at it at once: it is new, gone, or its spec has changed.
    Now,
    /// Soon is enough: mostly this is our own status coming back.
    Batched,
    /// Only its pods may need freeing.
    Orphans,
}

/// What a change of a Job asks for.
pub fn job_changed(change: &Change<'_, Job>) -> Urgency {
    match (change.old, change.new) {
        (Some(_), Some(new)) if new.is_finished() => Urgency::Orphans,
        (Some(old), Some(new)) if old.metadata.generation == new.metadata.generation => Urgency::Batched,
        _ => Urgency::Now,
    }
}

/// Whether a change of a Job may leave pods with a finalizer that nobody will remove. A Job is not over before its
/// pods are free; so one that is only being listed leaves none.
pub fn may_leave_orphans(change: &Change<'_, Job>) -> bool {
    change.old.is_some() && change.new.is_none_or(|job| job.is_finished())
}

/// The Job a reference points to, unless another one has taken its name.
pub fn resolve(jobs: &Store<Job>, namespace: &str, owner: &OwnerReference) -> Option<Arc<Job>> {
    if owner.kind != "Job" {
        return None;
    }
    jobs.get(&Key::new(namespace, owner.name.as_str())).filter(|job| job.metadata.uid == owner.uid)
}

/// Whether a pod without a controller is so, or is labelled so, only since this change.
fn is_free(change: &Change<'_, Pod>, pod: &Pod) -> bool {
    let is_news =
        |old: &Arc<Pod>| old.metadata.labels != pod.metadata.labels || old.metadata.controller().is_some();
    pod.metadata.controller().is_none() && !pod.metadata.is_deleting() && change.old.is_none_or(is_news)
}

fn adopters(jobs: &Store<Job>, orphan: &Pod) -> Vec<Key> {
    let wants = |job: &&Arc<Job>| {
        let selector = Selector::from_object(job.spec.selector.as_ref());
        selector.is_ok_and(|selector| !selector.is_empty() && selector.matches(&orphan.metadata.labels))
    };
    jobs.in_namespace(&orphan.metadata.namespace).iter().filter(wants).map(|job| job.metadata.key()).collect()
}
