//! What triggers, monitors and workers share: the quotas, what can be measured, and who is to be looked at.

use std::sync::Arc;

use flyball_api::{Key, Object, ResourceQuota, Timestamp};
use flyball_cache::{Change, Informer};
use flyball_queue::{Priority, Queue};
use flyball_runtime::{metrics::Passage, priority};
use parking_lot::RwLock;

use super::triggers::{Urgency, quota_changed};
use super::usage::{Features, Id, Source, Sources, Usage};

pub(super) struct Board {
    pub(super) quotas: Arc<Informer<ResourceQuota>>,
    pub(super) features: Features,
    /// Quotas whose status may be behind.
    pub(super) routine: Queue<Key>,
    /// Quotas without a status, which let nothing in: they have workers of their own.
    pub(super) missing: Queue<Key>,
    sources: RwLock<Sources>,
    given_back: Passage,
}

impl Board {
    pub(super) fn new(
        quotas: Arc<Informer<ResourceQuota>>,
        features: Features,
        routine: Queue<Key>,
        missing: Queue<Key>,
        given_back: Passage,
    ) -> Self {
        Self { quotas, features, routine, missing, sources: RwLock::default(), given_back }
    }

    /// What is used of a quota.
    pub(super) fn usage(&self, quota: &ResourceQuota, now: Timestamp) -> Usage {
        self.sources.read().usage(quota, self.features, now)
    }

    /// A quota was made, changed or listed.
    pub(super) fn quota_changed(&self, change: &Change<'_, ResourceQuota>) {
        let sources = self.sources.read();
        match quota_changed(change, |name| sources.measure(name)) {
            Some((key, Urgency::Missing)) => self.missing.add(key, priority(change.origin)),
            Some((key, Urgency::Routine)) => self.routine.add(key, priority(change.origin)),
            None => {}
        }
    }

    /// Something of a resource was given back in a namespace.
    pub(super) fn replenish(&self, id: &Id, namespace: &str) {
        self.given_back.through(|| {
            let sources = self.sources.read();
            for quota in self.quotas.store().in_namespace(namespace) {
                if sources.concerns(id, &quota.status.hard) {
                    self.routine.add(quota.key(), Priority::Change);
                }
            }
        });
    }

    /// A resource has become known, or has gone: every quota that names it is behind.
    pub(super) fn resource_changed(&self, id: &Id) {
        let sources = self.sources.read();
        for quota in self.quotas.store().list() {
            if sources.concerns(id, &quota.spec.hard) {
                self.routine.add(quota.key(), Priority::Sweep);
            }
        }
    }

    /// All quotas are to be looked at, in their turn.
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
