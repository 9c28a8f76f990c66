//! Which pods and rules to look at after a change.

use std::collections::BTreeSet;
use std::fmt;

use flyball_api::pod::Pod;
use flyball_api::{DeviceTaintRule, Key, Object, ResourceClaim, ResourceSlice};
use flyball_cache::{Change, Store};
use flyball_runtime::WorkKey;
use smol_str::{SmolStr, format_smolstr};

use super::devices::{CLAIMS_BY_DEVICE, SLICES_BY_POOL, device_key, pool_of};
use super::plan::NO_EXECUTE;
use crate::claim::consumer::{Kind, reserved_for};
use crate::claim::triggers::PODS_BY_GROUP;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A pod that may have to go.
    Pod(Key),
    /// A rule whose status may have changed.
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

/// Where those who use a claim are found.
#[derive(Clone)]
pub(super) struct World {
    pub(super) pods: Store<Pod>,
    pub(super) claims: Store<ResourceClaim>,
    pub(super) slices: Store<ResourceSlice>,
    pub(super) with_groups: bool,
}

impl World {
    /// The pods that may use a claim.
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

    /// What a change of a claim concerns.
    pub(super) fn claim_changed(&self, change: &Change<'_, ResourceClaim>) -> Vec<Work> {
        change.old.into_iter().chain(change.new).flat_map(|claim| self.users(claim)).collect()
    }

    /// What a change of a slice concerns: the users of its tainted devices, and if it came, went or belongs to another
    /// generation, those of its whole pool.
    pub(super) fn slice_changed(&self, change: &Change<'_, ResourceSlice>) -> BTreeSet<Work> {
        let generation = |slice: &ResourceSlice| (pool_of(slice), slice.spec.pool.generation);
        let both = || change.old.into_iter().chain(change.new);
        let is_shifted =
            change.old.map(|slice| generation(slice)) != change.new.map(|slice| generation(slice));
        let mut devices: BTreeSet<SmolStr> = both().flat_map(|slice| tainted(slice)).collect();
        if is_shifted {
            let pools: BTreeSet<SmolStr> = both().map(|slice| pool_of(slice)).collect();
            let slices = pools.iter().flat_map(|pool| self.slices.by(&SLICES_BY_POOL, pool));
            devices.extend(slices.flat_map(|slice| tainted(&slice).collect::<Vec<_>>()));
        }
        let claims = devices.iter().flat_map(|device| self.claims.by(&CLAIMS_BY_DEVICE, device));
        claims.flat_map(|claim| self.users(&claim)).collect()
    }

    /// What a change of a rule concerns: itself, and as rules seldom change, the users of all claims.
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

fn tainted(slice: &ResourceSlice) -> impl Iterator<Item = SmolStr> {
    let pool = pool_of(slice);
    let devices = slice.spec.devices.iter();
    let devices = devices.filter(|device| device.taints.iter().any(|taint| taint.effect == NO_EXECUTE));
    devices.map(move |device| device_key(&pool, &device.name))
}

/// The pod, if it was placed, or got other claims, or is going or gone.
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
    let is_news = !change.old.zip(change.new).is_some_and(|(old, new)| is_same(old, new));
    (is_news && has_claims(pod)).then(|| Work::Pod(pod.key()))
}
