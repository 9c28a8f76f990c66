//! When pods are to be evicted. Holds only pods that wait for their time or are being deleted.

use flyball_api::pod::Pod;
use flyball_api::taint::{Taint, Toleration};
use flyball_api::{Key, Uid};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::plan::no_execute;

/// An eviction that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod; another one of its name is left alone.
    pub uid: Uid,
    pub due: Instant,
    pub stage: Stage,
}

impl Eviction {
    /// Whether there was an event that the pod is being deleted.
    pub fn is_announced(&self) -> bool {
        self.stage != Stage::Scheduled
    }

    /// What to remember of an eviction whose pod was deleted: nothing, if the cache does not show the pod any more.
    pub fn after_deletion(self, cached: Option<&Pod>, taints: Option<&[Taint]>) -> Option<Self> {
        let cause = Cause::of(cached?, taints);
        Some(Self { stage: Stage::Done(cause), ..self })
    }

    /// Whether the pod was deleted, for whatever cause.
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }
}

/// How far an eviction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    Scheduled,
    /// There was an event that the pod is being deleted.
    Announced,
    /// The pod was deleted, for this cause. While it is not gone, another cause evicts it again.
    Done(Cause),
}

/// What a pod is evicted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    taints: Vec<Taint>,
    tolerations: Box<[Toleration]>,
}

impl Cause {
    pub fn of(pod: &Pod, taints: Option<&[Taint]>) -> Self {
        let taints = no_execute(taints.unwrap_or_default()).cloned().collect();
        Self { taints, tolerations: pod.spec.tolerations.iter().cloned().collect() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    evictions: Mutex<FxHashMap<Key, Eviction>>,
}

impl Schedule {
    pub(super) fn has(&self, pod: &Key) -> bool {
        self.evictions.lock().contains_key(pod)
    }

    /// The pods of a namespace whose eviction was announced and has not succeeded.
    pub(super) fn announced(&self, namespace: &str) -> Vec<Key> {
        let evictions = self.evictions.lock();
        let is_due = |(key, eviction): &(&Key, &Eviction)| {
            key.namespace == namespace && eviction.stage == Stage::Announced
        };
        let mut due: Vec<Key> = evictions.iter().filter(is_due).map(|(key, _)| key.clone()).collect();
        due.sort_unstable();
        due
    }

    pub(super) fn get(&self, pod: &Key) -> Option<Eviction> {
        self.evictions.lock().get(pod).cloned()
    }

    pub(super) fn set(&self, pod: &Key, eviction: Option<Eviction>) {
        let mut evictions = self.evictions.lock();
        match eviction {
            Some(eviction) => evictions.insert(pod.clone(), eviction),
            None => evictions.remove(pod),
        };
    }
}
