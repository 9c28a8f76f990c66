//! The ReplicaSets of a Deployment by their role: the one of the present template, and all others.

use std::cmp::Ordering;
use std::sync::Arc;

use flyball_api::{Deployment, Object, ReplicaSet};

/// All ReplicaSets of a Deployment.
#[derive(Debug, Clone)]
pub struct Fleet<'a> {
    /// The one that makes pods of the present template; it need not exist yet.
    pub new: Option<&'a ReplicaSet>,
    pub old: Vec<&'a ReplicaSet>,
}

impl<'a> Fleet<'a> {
    /// Tells the sets apart. Sets are found by their template, not by its hash, which another version of this
    /// program may compute otherwise. Should several have the present template, the oldest is taken.
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

    /// The sets that ought to have pods.
    pub fn active(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.all().filter(|set| replicas(set) > 0)
    }

    /// The old sets that ought to have pods, oldest first.
    pub fn active_old(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().copied().filter(|set| replicas(set) > 0)
    }

    /// How many pods all sets together ought to have.
    pub fn replicas(&self) -> i64 {
        self.all().map(replicas).sum()
    }
}

/// Oldest first; sets of the same second by name.
pub fn by_age(one: &ReplicaSet, two: &ReplicaSet) -> Ordering {
    let key = |set: &ReplicaSet| set.meta().creation_timestamp;
    key(one).cmp(&key(two)).then_with(|| one.meta().name.cmp(&two.meta().name))
}

/// How many pods a set ought to have.
pub fn replicas(set: &ReplicaSet) -> i64 {
    i64::from(set.spec.replicas.unwrap_or(1))
}

/// Whether a set reports more available pods than it ought to have: its controller has not looked at it since it was
/// scaled down.
pub fn is_behind(set: &ReplicaSet) -> bool {
    i64::from(set.status.available_replicas) > replicas(set)
}

/// How many of them are available for sure. A set that was scaled down a moment ago still reports the pods
/// that it is about to delete; they do not count.
pub fn available(set: &ReplicaSet) -> i64 {
    i64::from(set.status.available_replicas).min(replicas(set))
}
