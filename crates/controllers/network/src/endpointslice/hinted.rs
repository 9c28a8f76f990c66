//! What is remembered about Services with shared-out endpoints: how many endpoints each zone was given, so that a
//! change of the nodes wakes those Services for which it matters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::{Key, Node};
use flyball_cache::Store;
use parking_lot::Mutex;

use super::topology::{self, Allocated, Ratios, is_overloaded};
use crate::addresses::Family;

/// The zones' sizes and what each Service made of them.
#[derive(Default)]
pub(super) struct Hinted {
    stale: AtomicBool,
    ratios: Mutex<Option<Arc<Ratios>>>,
    services: Mutex<BTreeMap<Key, BTreeMap<Family, Allocated>>>,
}

impl Hinted {
    /// The nodes have changed.
    pub(super) fn nodes_changed(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// The zones' sizes, worked out anew if the nodes have changed.
    pub(super) fn ratios(&self, nodes: &Store<Node>) -> Option<Arc<Ratios>> {
        // Whoever comes while the sizes are being worked out waits for them instead of using the old ones.
        let mut ratios = self.ratios.lock();
        if self.stale.swap(false, Ordering::AcqRel) {
            *ratios = topology::ratios(&nodes.list()).map(Arc::new);
        }
        ratios.clone()
    }

    /// Notes hints that were given; says whether the Service had none before.
    pub(super) fn given(&self, service: &Key, family: Family, allocated: Allocated) -> bool {
        let mut services = self.services.lock();
        let is_new = !services.contains_key(service);
        services.entry(service.clone()).or_default().insert(family, allocated);
        is_new
    }

    /// Notes that a family has no hints any more; says whether it had any.
    pub(super) fn taken(&self, service: &Key, family: Family) -> bool {
        let mut services = self.services.lock();
        let Some(families) = services.get_mut(service) else { return false };
        let had = families.remove(&family).is_some();
        if families.is_empty() {
            services.remove(service);
        }
        had
    }

    /// Forgets a Service that is gone.
    pub(super) fn forget(&self, service: &Key) {
        self.services.lock().remove(service);
    }

    /// The Services whose hints no longer fit the zones.
    pub(super) fn overloaded(&self, nodes: &Store<Node>) -> Vec<Key> {
        let ratios = self.ratios(nodes);
        let services = self.services.lock();
        let is_off = |families: &BTreeMap<Family, Allocated>| {
            families.values().any(|allocated| is_overloaded(allocated, ratios.as_deref()))
        };
        services.iter().filter(|(_, families)| is_off(families)).map(|(key, _)| key.clone()).collect()
    }
}
