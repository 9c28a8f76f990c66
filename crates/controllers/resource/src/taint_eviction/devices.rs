//! What the caches show about devices: their slices, and their taints from drivers and from DeviceTaintRules.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::resource_claim::AllocatedDevice;
use flyball_api::{DeviceTaintRule, ResourceClaim, ResourceSlice};
use flyball_cache::{Index, Informer};
use smol_str::{SmolStr, format_smolstr};

use super::plan::{self, DeviceTaint};

/// Slices by driver and pool.
pub(super) const SLICES_BY_POOL: Index<ResourceSlice> =
    Index::new("pool", |slice, emit| emit(&pool_of(slice)));

/// ResourceClaims by the devices that are allocated to them.
pub(super) const CLAIMS_BY_DEVICE: Index<ResourceClaim> = Index::new("device", |claim, emit| {
    for device in devices_of(claim) {
        emit(&device_key(&pool_key(&device.driver, &device.pool), &device.device));
    }
});

fn pool_key(driver: &str, pool: &str) -> SmolStr {
    format_smolstr!("{driver}/{pool}")
}

pub(super) fn pool_of(slice: &ResourceSlice) -> SmolStr {
    pool_key(&slice.spec.driver, &slice.spec.pool.name)
}

pub(super) fn device_key(pool: &str, device: &str) -> SmolStr {
    format_smolstr!("{pool}/{device}")
}

/// The devices that are allocated to a ResourceClaim.
pub(super) fn devices_of(claim: &ResourceClaim) -> &[AllocatedDevice] {
    claim.status.allocation.as_ref().map_or(&[], |allocation| &allocation.devices.results)
}

pub(super) struct Devices {
    pub(super) slices: Arc<Informer<ResourceSlice>>,
    /// All rules, if the gate is on.
    pub(super) rules: Option<Arc<Informer<DeviceTaintRule>>>,
}

impl Devices {
    /// The `NoExecute` taints of a device. `as_if` is a rule that counts as if it had that effect.
    pub(super) fn taints(
        &self,
        device: &AllocatedDevice,
        as_if: Option<&DeviceTaintRule>,
    ) -> Vec<DeviceTaint> {
        let rules = self.rules.as_ref().map(|rules| rules.store().list()).unwrap_or_default();
        plan::taints(device, &self.current(&pool_key(&device.driver, &device.pool)), &rules, as_if)
    }

    /// The slices of all pools that count.
    pub(super) fn published(&self) -> Vec<Arc<ResourceSlice>> {
        let pools: BTreeSet<SmolStr> =
            self.slices.store().list().iter().map(|slice| pool_of(slice)).collect();
        pools.iter().flat_map(|pool| self.current(pool)).collect()
    }

    fn current(&self, pool: &str) -> Vec<Arc<ResourceSlice>> {
        plan::current(self.slices.store().by(&SLICES_BY_POOL, pool))
    }
}
