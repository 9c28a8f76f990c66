//! What triggers, monitors and workers share: the quotas, the resources that are counted, and the queues.

use std::sync::Arc;

use flyball_api::{Key, Object, ResourceQuota, Timestamp};
use flyball_cache::{Change, Informer};
use flyball_queue::{Priority, Queue};
use flyball_runtime::{metrics::Passage, priority};
use parking_lot::RwLock;

use super::triggers::{Urgency, quota_changed};
use super::usage::{Features, Id, Source, Sources, Usage};

pub(super) struct Shared {
    pub(super) quotas: Arc<Informer<ResourceQuota>>,
    pub(super) features: Features,
    /// Quotas whose status may be out of date.
    pub(super) routine: Queue<Key>,
    /// Quotas without a status, with workers of their own: the API server admits nothing until they have one.
    pub(super) missing: Queue<Key>,
    sources: RwLock<Sources>,
    replenished: Passage,
}

impl Shared {
    pub(super) fn new(
        quotas: Arc<Informer<ResourceQuota>>,
        features: Features,
        routine: Queue<Key>,
        missing: Queue<Key>,
        replenished: Passage,
    ) -> Self {
        Self { quotas, features, routine, missing, sources: RwLock::default(), replenished }
    }

    pub(super) fn usage(&self, quota: &ResourceQuota, now: Timestamp) -> Usage {
        self.sources.read().usage(quota, self.features, now)
    }

    /// Queues a quota that was created, changed or listed.
    pub(super) fn quota_changed(&self, change: &Change<'_, ResourceQuota>) {
        let sources = self.sources.read();
        match quota_changed(change, |name| sources.measure(name)) {
            Some((key, Urgency::Missing)) => self.missing.add(key, priority(change.origin)),
            Some((key, Urgency::Routine)) => self.routine.add(key, priority(change.origin)),
            None => {}
        }
    }

    /// Queues the quotas of a namespace that limit a resource of which less is used.
    pub(super) fn replenish(&self, id: &Id, namespace: &str) {
        self.replenished.through(|| {
            let sources = self.sources.read();
            for quota in self.quotas.store().in_namespace(namespace) {
                if sources.concerns(id, &quota.status.hard) {
                    self.routine.add(quota.key(), Priority::Change);
                }
            }
        });
    }

    /// Queues all quotas that limit a resource which can now be counted, or is no longer served.
    pub(super) fn resource_changed(&self, id: &Id) {
        let sources = self.sources.read();
        for quota in self.quotas.store().list() {
            if sources.concerns(id, &quota.spec.hard) {
                self.routine.add(quota.key(), Priority::Sweep);
            }
        }
    }

    /// Queues all quotas, with low priority.
    pub(super) fn sweep(&self) {
        for quota in self.quotas.store().list() {
            self.routine.add(quota.key(), Priority::Sweep);
        }
    }

    pub(super) fn put(&self, id: Id, source: Source) {
        self.sources.write().put(id, source);
    }

    pub(super) fn retire(&self, id: &Id) {
        self.sources.write().retire(id);
    }
}
