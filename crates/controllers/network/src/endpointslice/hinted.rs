//! What is remembered about Services with shared-out endpoints: how many endpoints each zone was given, so that a
//! change of the nodes wakes those Services for which it matters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::{Key, Node};
use flyball_cache::Store;
use parking_lot::Mutex;

use super::topology::{self, Allocated, Ratios, is_overloaded};
use crate::addresses::Family;

/// The zones' sizes and what each Service made of them.
pub(super) struct Hinted {
    stale: AtomicBool,
    /// Of no zones, as long as no node was seen.
    ratios: Mutex<Option<Arc<Ratios>>>,
    services: Mutex<Services>,
}

#[derive(Default)]
struct Services {
    allocated: BTreeMap<Key, BTreeMap<Family, Allocated>>,
    /// Those that were told that they have hints, and not since that some were taken away.
    told: BTreeSet<Key>,
}

impl Default for Hinted {
    fn default() -> Self {
        let ratios = Mutex::new(Some(Arc::default()));
        Self { stale: AtomicBool::default(), ratios, services: Mutex::default() }
    }
}

impl Hinted {
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

    /// Notes hints that were given; says whether the Service must be told of it.
    pub(super) fn given(&self, service: &Key, family: Family, allocated: Allocated) -> bool {
        let mut services = self.services.lock();
        services.allocated.entry(service.clone()).or_default().insert(family, allocated);
        services.told.insert(service.clone())
    }

    /// Notes that a family has no hints any more; says whether the Service was told that it has some.
    pub(super) fn taken(&self, service: &Key, family: Family) -> bool {
        let mut services = self.services.lock();
        if let Some(families) = services.allocated.get_mut(service) {
            families.remove(&family);
            if families.is_empty() {
                services.allocated.remove(service);
            }
        }
        services.told.remove(service)
    }

    /// Forgets a Service that is gone.
    pub(super) fn forget(&self, service: &Key) {
        let mut services = self.services.lock();
        services.allocated.remove(service);
        services.told.remove(service);
    }

    /// The Services whose hints no longer fit the zones.
    pub(super) fn overloaded(&self, nodes: &Store<Node>) -> Vec<Key> {
        let ratios = self.ratios(nodes);
        let services = self.services.lock();
        let is_off = |families: &BTreeMap<Family, Allocated>| {
            families.values().any(|allocated| is_overloaded(allocated, ratios.as_deref()))
        };
        services
            .allocated
            .iter()
            .filter(|(_, families)| is_off(families))
            .map(|(key, _)| key.clone())
            .collect()
    }
}
