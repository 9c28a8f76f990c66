//! The taints of devices: from drivers in slices, and from administrators in DeviceTaintRules.

use std::sync::Arc;

use flyball_api::resource_claim::AllocatedDevice;
use flyball_api::{DeviceTaintRule, ResourceClaim, ResourceSlice};
use flyball_cache::{Index, Informer};
use smol_str::{SmolStr, format_smolstr};

use super::plan::{DeviceTaint, NO_EXECUTE, evicting, selects};

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
        let mut all: Vec<DeviceTaint> = vec![];
        for slice in self.current(&device.driver, &device.pool) {
            let found = slice.spec.devices.iter().find(|found| found.name == device.device);
            let taints = found.into_iter().flat_map(|found| &found.taints);
            all.extend(taints.filter(|taint| taint.effect == NO_EXECUTE).map(|taint| (taint.clone(), None)));
        }
        let rules = self.rules.iter().flat_map(|rules| rules.store().list());
        let rules = rules.filter(|rule| rule.spec.taint.effect == NO_EXECUTE);
        let mut add = |rule: &DeviceTaintRule| {
            if selects(rule, &device.driver, &device.pool, &device.device) {
                all.push(evicting(rule));
            }
        };
        rules.for_each(|rule| add(&rule));
        as_if.into_iter().for_each(add);
        all
    }

    /// The slices of the latest generation of a pool; older ones do not count.
    pub(super) fn current(&self, driver: &str, pool: &str) -> Vec<Arc<ResourceSlice>> {
        let mut slices = self.slices.store().by(&SLICES_BY_POOL, &pool_key(driver, pool));
        let latest = slices.iter().map(|slice| slice.spec.pool.generation).max();
        slices.retain(|slice| Some(slice.spec.pool.generation) == latest);
        slices
    }
}
