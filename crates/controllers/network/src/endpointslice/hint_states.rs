//! The hints of Services by topology: how many endpoints each zone has, so that a change of the nodes requeues those
//! Services whose hints no longer fit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::{Key, Node};
use flyball_cache::Store;
use parking_lot::Mutex;

use super::topology::{self, Allocated, Ratios, is_overloaded};
use crate::addresses::Family;

/// The hints of one Service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HintState {
    allocated: BTreeMap<Family, Allocated>,
    /// The last event about hints reported them as enabled.
    is_enabled: bool,
}

impl HintState {
    /// Stores the hints of a family. Returns whether an event must report them.
    pub fn enable(&mut self, family: Family, allocated: Allocated) -> bool {
        self.allocated.insert(family, allocated);
        !std::mem::replace(&mut self.is_enabled, true)
    }

    /// Removes the hints of a family. Returns whether an event had reported hints.
    pub fn disable(&mut self, family: Family) -> bool {
        self.allocated.remove(&family);
        std::mem::take(&mut self.is_enabled)
    }
}

/// The sizes of the zones, and the hints of each Service.
pub(super) struct HintStates {
    /// Nodes have changed since the ratios were computed.
    is_stale: AtomicBool,
    /// Empty until the first node is seen.
    ratios: Mutex<Option<Arc<Ratios>>>,
    services: Mutex<BTreeMap<Key, HintState>>,
}

impl Default for HintStates {
    fn default() -> Self {
        let ratios = Mutex::new(Some(Arc::default()));
        Self { is_stale: AtomicBool::default(), ratios, services: Mutex::default() }
    }
}

impl HintStates {
    pub(super) fn nodes_changed(&self) {
        self.is_stale.store(true, Ordering::Release);
    }

    /// Each zone's part of the CPUs, computed again if nodes have changed.
    pub(super) fn ratios(&self, nodes: &Store<Node>) -> Option<Arc<Ratios>> {
        // Other workers wait for the new ratios instead of using the old ones.
        let mut ratios = self.ratios.lock();
        if self.is_stale.swap(false, Ordering::AcqRel) {
            *ratios = topology::ratios(&nodes.list()).map(Arc::new);
        }
        ratios.clone()
    }

    pub(super) fn get(&self, service: &Key) -> HintState {
        self.services.lock().get(service).cloned().unwrap_or_default()
    }

    pub(super) fn set(&self, service: &Key, state: HintState) {
        if state == HintState::default() {
            self.services.lock().remove(service);
        } else {
            self.services.lock().insert(service.clone(), state);
        }
    }

    /// The Services whose hints no longer fit the zones.
    pub(super) fn overloaded(&self, nodes: &Store<Node>) -> Vec<Key> {
        let ratios = self.ratios(nodes);
        let services = self.services.lock();
        let is_off = |state: &HintState| {
            state.allocated.values().any(|allocated| is_overloaded(allocated, ratios.as_deref()))
        };
        services.iter().filter(|(_, state)| is_off(state)).map(|(key, _)| key.clone()).collect()
    }
}
