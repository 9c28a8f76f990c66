//! Which Jobs and which orphaned pods to sync after a change. Pure.

use std::fmt;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Job, Key, Object, OwnerReference, Selector, Uid};
use flyball_cache::{Change, Origin, Store};
use flyball_runtime::WorkKey;

use super::view::has_finalizer;

/// Pods that may have a tracking finalizer that no Job will remove.
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

/// What to sync after a change of a pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Affected {
    pub jobs: Vec<Key>,
    /// The pod itself, if no Job will remove its finalizer.
    pub orphan: Option<Orphans>,
}

/// The Job of the pod, its former Job, and, for a pod without a controller, every Job that could adopt it. The finalizer of a
/// pod that no Job will count is removed.
pub fn pod_changed(change: &Change<'_, Pod>, jobs: &Store<Job>) -> Affected {
    let mut affected = Affected::default();
    if change.origin == Origin::Resync {
        return affected;
    }
    let owner = |pod: &Pod| resolve(jobs, &pod.metadata.namespace, pod.metadata.controller()?);
    let before = change.old.and_then(|pod| owner(pod));
    let after = change.new.and_then(|pod| owner(pod));
    let unfinished = |job: &&Arc<Job>| !job.is_finished();
    // The first sync of a Job covers all of its pods.
    if change.origin != Origin::Initial {
        let is_deleting = change.object().metadata.is_deleting() || change.new.is_none();
        let keys = before.iter().chain(&after).filter(|job| !is_deleting || unfinished(job));
        affected.jobs = keys.map(|job| job.metadata.key()).collect();
        affected.jobs.dedup();
        if let Some(orphan) = change.new.filter(|pod| is_free(change, pod)) {
            affected.jobs.extend(adopters(jobs, orphan));
        }
    }
    if let Some(pod) = change.new.filter(|pod| has_finalizer(pod)) {
        let is_lost = match pod.metadata.controller() {
            None => true,
            Some(_) => pod.metadata.is_deleting() && after.as_ref().filter(unfinished).is_none(),
        };
        affected.orphan = is_lost.then(|| Orphans::Pod(pod.metadata.key()));
    }
    affected
}

/// When to sync a changed Job.
#[derive(Debug, PartialEq, Eq)]
pub enum Urgency {
    /// At once: it is new, gone, or its spec has changed.
    Now,
    /// Soon: mostly this is the status that the controller has written itself.
    Batched,
    /// Not at all; but its pods may be orphaned.
    Orphans,
}

/// When to sync a Job after a change.
pub fn job_changed(change: &Change<'_, Job>) -> Urgency {
    match (change.old, change.new) {
        (Some(_), Some(new)) if new.is_finished() => Urgency::Orphans,
        (Some(old), Some(new)) if old.metadata.generation == new.metadata.generation => Urgency::Batched,
        _ => Urgency::Now,
    }
}

/// Whether a change of a Job may leave pods with a finalizer that no Job will remove. A Job ends only after the finalizers of
/// its pods are removed, so the initial list leaves none.
pub fn may_leave_orphans(change: &Change<'_, Job>) -> bool {
    change.old.is_some() && change.new.is_none_or(|job| job.is_finished())
}

/// The Job to sync when its Workload or PodGroup appears in the cache. The first sync of a Job needs no trigger.
pub fn made_for_job<T: Object>(change: &Change<'_, T>) -> Option<Key> {
    let (None, Some(new), true) = (change.old, change.new, change.origin != Origin::Initial) else {
        return None;
    };
    let owner = new.meta().controller().filter(|owner| owner.kind == "Job")?;
    Some(Key::new(new.meta().namespace.as_str(), owner.name.as_str()))
}

/// The Job of a reference, unless another one has its name.
pub fn resolve(jobs: &Store<Job>, namespace: &str, owner: &OwnerReference) -> Option<Arc<Job>> {
    if owner.kind != "Job" {
        return None;
    }
    jobs.get(&Key::new(namespace, owner.name.as_str())).filter(|job| job.metadata.uid == owner.uid)
}

/// Whether this change orphaned or relabelled the pod.
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
