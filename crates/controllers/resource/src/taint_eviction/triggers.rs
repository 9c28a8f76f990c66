//! Which pods and rules to sync after a change. Pure.

use std::collections::BTreeSet;
use std::fmt;

use flyball_api::pod::Pod;
use flyball_api::{DeviceTaintRule, Key, Object, ResourceClaim, ResourceSlice};
use flyball_cache::{Change, Store};
use flyball_runtime::WorkKey;
use smol_str::{SmolStr, format_smolstr};

use super::devices::{CLAIMS_BY_DEVICE, SLICES_BY_POOL, device_key, pool_of};
use super::plan::NO_EXECUTE;
use crate::resource_claim::consumer::{Kind, reserved_for};
use crate::resource_claim::triggers::PODS_BY_GROUP;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A pod that may have to be evicted.
    Pod(Key),
    /// A rule whose status may have to change.
    Rule(Key),
}

impl WorkKey for Work {
    fn object(&self) -> &Key {
        match self {
            Self::Pod(key) | Self::Rule(key) => key,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Rule(key) => write!(f, "rule:{key}"),
        }
    }
}

#[derive(Clone)]
pub(super) struct Stores {
    pub(super) pods: Store<Pod>,
    pub(super) claims: Store<ResourceClaim>,
    pub(super) slices: Store<ResourceSlice>,
    /// Whether a claim may be reserved for a PodGroup, and so for its pods (`DRAWorkloadResourceClaims`).
    pub(super) with_groups: bool,
}

impl Stores {
    /// The pods that a ResourceClaim is reserved for.
    fn users(&self, claim: &ResourceClaim) -> Vec<Work> {
        let namespace = &claim.metadata.namespace;
        let users = claim.status.reserved_for.iter().flat_map(|user| match reserved_for(user) {
            Some(Kind::Pod) => vec![Work::Pod(Key::new(namespace.as_str(), user.name.as_str()))],
            Some(Kind::Group) if self.with_groups => {
                let members = self.pods.by(&PODS_BY_GROUP, &format_smolstr!("{namespace}/{}", user.name));
                members.iter().map(|pod| Work::Pod(pod.key())).collect()
            }
            _ => vec![],
        });
        users.collect()
    }

    /// The users of a ResourceClaim, before and after a change.
    pub(super) fn claim_changed(&self, change: &Change<'_, ResourceClaim>) -> Vec<Work> {
        change.old.into_iter().chain(change.new).flat_map(|claim| self.users(claim)).collect()
    }

    /// The users of the tainted devices of a slice. If the slice is new, gone or in another generation, the users of the
    /// tainted devices of its whole pool.
    pub(super) fn slice_changed(&self, change: &Change<'_, ResourceSlice>) -> BTreeSet<Work> {
        let generation = |slice: &ResourceSlice| (pool_of(slice), slice.spec.pool.generation);
        let both = || change.old.into_iter().chain(change.new);
        let is_other_generation =
            change.old.map(|slice| generation(slice)) != change.new.map(|slice| generation(slice));
        let mut devices: BTreeSet<SmolStr> = both().flat_map(|slice| tainted(slice)).collect();
        if is_other_generation {
            let pools: BTreeSet<SmolStr> = both().map(|slice| pool_of(slice)).collect();
            let slices = pools.iter().flat_map(|pool| self.slices.by(&SLICES_BY_POOL, pool));
            devices.extend(slices.flat_map(|slice| tainted(&slice).collect::<Vec<_>>()));
        }
        let claims = devices.iter().flat_map(|device| self.claims.by(&CLAIMS_BY_DEVICE, device));
        claims.flat_map(|claim| self.users(&claim)).collect()
    }

    /// The rule, and the users of all ResourceClaims: rules rarely change.
    pub(super) fn rule_changed(&self, change: &Change<'_, DeviceTaintRule>) -> BTreeSet<Work> {
        let is_same =
            |old: &DeviceTaintRule, new: &DeviceTaintRule| old.uid() == new.uid() && old.spec == new.spec;
        if change.old.zip(change.new).is_some_and(|(old, new)| is_same(old, new)) {
            return BTreeSet::new();
        }
        let users = self.claims.list().into_iter().flat_map(|claim| self.users(&claim));
        users.chain(change.new.map(|rule| Work::Rule(rule.key()))).collect()
    }
}

/// The devices of a slice that pods have to leave.
fn tainted(slice: &ResourceSlice) -> impl Iterator<Item = SmolStr> {
    let pool = pool_of(slice);
    let devices = slice.spec.devices.iter();
    let devices = devices.filter(|device| device.taints.iter().any(|taint| taint.effect == NO_EXECUTE));
    devices.map(move |device| device_key(&pool, &device.name))
}

/// The pod, if its node, its ResourceClaims or its deletion has changed.
pub(super) fn pod_changed(change: &Change<'_, Pod>) -> Option<Work> {
    let claims = |pod: &Pod| pod.status.rare().resource_claim_statuses.clone();
    let is_same = |old: &Pod, new: &Pod| {
        old.uid() == new.uid()
            && old.spec.node_name == new.spec.node_name
            && old.is_deleting() == new.is_deleting()
            && claims(old) == claims(new)
    };
    let has_claims = |pod: &Pod| !pod.spec.rare().resource_claims.is_empty();
    let pod = change.object();
    let is_relevant = !change.old.zip(change.new).is_some_and(|(old, new)| is_same(old, new));
    (is_relevant && has_claims(pod)).then(|| Work::Pod(pod.key()))
}
