//! What this process has done for each Service: the memory between two syncs.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, Service, Uid};
use parking_lot::Mutex;

use super::backends::Backends;
use super::metrics::NodeSync;
use super::plan::{Applied, wants_balancer};

/// Services that have, or may have, a load balancer.
#[derive(Default)]
pub(super) struct Records {
    records: Mutex<BTreeMap<Key, Record>>,
}

struct Record {
    service: Arc<Service>,
    applied: Applied,
    /// The era of the caches on which that was decided. A restore of etcd since may have undone the writes to the Service.
    era: u64,
    /// Changes of nodes that this Service has to follow.
    node_syncs: Vec<Arc<NodeSync>>,
}

impl Records {
    /// What was applied, and written to the Service, in this era of the caches.
    pub(super) fn applied(&self, key: &Key, era: u64) -> Option<Applied> {
        let records = self.records.lock();
        records.get(key).filter(|record| record.era == era).map(|record| record.applied.clone())
    }

    /// The last known Service of this name, if it is not the current one, which has this uid.
    pub(super) fn deleted(&self, key: &Key, current: Option<&Uid>) -> Option<Arc<Service>> {
        let last = self.records.lock().get(key).map(|record| record.service.clone());
        last.filter(|service| current != Some(&service.metadata.uid))
    }

    /// Records that the load balancer of a Service is about to change. Until that succeeds, nothing counts as applied.
    pub(super) fn begin(&self, key: &Key, service: &Arc<Service>, backends: Backends, era: u64) {
        let mut records = self.records.lock();
        let record = records.entry(key.clone()).or_insert_with(|| Record {
            service: service.clone(),
            applied: Applied::default(),
            era,
            node_syncs: vec![],
        });
        record.service = service.clone();
        (record.applied, record.era) = (Applied { service: None, backends }, era);
    }

    /// Records that the load balancer is as the Service specifies.
    pub(super) fn ensured(&self, key: &Key, service: &Arc<Service>) {
        if let Some(record) = self.records.lock().get_mut(key) {
            record.applied.service = Some(service.clone());
        }
    }

    /// Records that a Service no longer has a load balancer.
    pub(super) fn forget(&self, key: &Key) {
        self.records.lock().remove(key);
    }

    /// The Services whose load balancers have other backends than these. `node_sync` ends when all of them were synced.
    pub(super) fn with_other_backends(&self, backends: &Backends, node_sync: &Arc<NodeSync>) -> Vec<Key> {
        let mut found = vec![];
        for (key, record) in self.records.lock().iter_mut() {
            if wants_balancer(&record.service) && record.applied.backends != *backends {
                record.node_syncs.push(node_sync.clone());
                found.push(key.clone());
            }
        }
        found
    }

    /// Ends the part of a Service in changes of nodes.
    pub(super) fn finish_node_syncs(&self, key: &Key) {
        let finished = self.records.lock().get_mut(key).map(|record| std::mem::take(&mut record.node_syncs));
        drop(finished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_applied_before_a_restore_does_not_count() {
        let (records, key, service) =
            (Records::default(), Key::new("ns", "web"), Arc::new(Service::default()));
        records.begin(&key, &service, Backends::default(), 1);
        records.ensured(&key, &service);
        assert_eq!(records.applied(&key, 1).map(|applied| applied.service.is_some()), Some(true));
        assert!(records.applied(&key, 2).is_none());
        records.begin(&key, &service, Backends::default(), 2);
        assert_eq!(records.applied(&key, 2).map(|applied| applied.service.is_some()), Some(false));
    }
}
