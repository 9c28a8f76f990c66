//! The ReplicaSets of a Deployment: the one of the current template, and the old ones. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use flyball_api::{Deployment, Object, ReplicaSet};

/// All ReplicaSets of a Deployment.
#[derive(Debug, Clone)]
pub struct Fleet<'a> {
    /// The ReplicaSet of the current template, if it exists.
    pub new: Option<&'a ReplicaSet>,
    pub old: Vec<&'a ReplicaSet>,
}

impl<'a> Fleet<'a> {
    /// Finds the new set by its template, not by the hash, which other versions of the controller may compute differently.
    /// If several sets have the template, the oldest is used.
    pub fn of(deployment: &Deployment, sets: &'a [Arc<ReplicaSet>]) -> Self {
        let mut old: Vec<&ReplicaSet> = sets.iter().map(|set| &**set).collect();
        old.sort_by(|one, two| by_age(one, two));
        let is_new = |set: &&ReplicaSet| set.spec.template.makes_same_pods(&deployment.spec.template);
        let new = old.iter().position(is_new).map(|at| old.remove(at));
        Self { new, old }
    }

    /// Every set, the new one last.
    pub fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().copied().chain(self.new)
    }

    /// The sets with `spec.replicas` above zero.
    pub fn active(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.all().filter(|set| replicas(set) > 0)
    }

    /// The old sets with `spec.replicas` above zero, oldest first.
    pub fn active_old(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().copied().filter(|set| replicas(set) > 0)
    }

    /// The sum of `spec.replicas` of all sets.
    pub fn replicas(&self) -> i64 {
        self.all().map(replicas).sum()
    }
}

/// Oldest first; sets of the same second by name.
pub fn by_age(one: &ReplicaSet, two: &ReplicaSet) -> Ordering {
    let key = |set: &ReplicaSet| set.meta().creation_timestamp;
    key(one).cmp(&key(two)).then_with(|| one.meta().name.cmp(&two.meta().name))
}

/// `spec.replicas`.
pub fn replicas(set: &ReplicaSet) -> i64 {
    i64::from(set.spec.replicas.unwrap_or(1))
}

/// Whether a set reports more available pods than `spec.replicas`: its controller has not synced it since it was scaled
/// down.
pub fn is_behind(set: &ReplicaSet) -> bool {
    i64::from(set.status.available_replicas) > replicas(set)
}

/// The number of pods that are surely available. A set that was just scaled down still reports the pods that it will
/// delete; they do not count.
pub fn available(set: &ReplicaSet) -> i64 {
    i64::from(set.status.available_replicas).min(replicas(set))
}
