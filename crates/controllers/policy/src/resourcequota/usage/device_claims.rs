//! The usage of ResourceClaims: devices, by class and by the extended resource of a class.
//!
//! A pod may request an extended resource, and the scheduler creates a ResourceClaim for it. The request of the pod counts;
//! of such a ResourceClaim only devices beyond the request do.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{DeviceClass, Key, Object, Quantity, ResourceClaim, ResourceList, Timestamp};
use flyball_cache::{Index, Store, by_controller};
use serde::Deserialize;
use smol_str::SmolStr;

use super::{Features, pods};
use crate::resourcequota::names::OfDeviceClaims;

/// On ResourceClaims that the scheduler created for a pod's extended resources.
const MADE_FOR_POD: &str = "resource.kubernetes.io/extended-resource-claim";
/// The most devices that can be allocated to a ResourceClaim: what a request for all devices counts as.
const ALL: i64 = 32;
/// Classes by their extended resource.
const BY_EXTENDED: Index<DeviceClass> = Index::new("extended-resource", |class, emit| {
    if let Some(name) = &class.spec.extended_resource_name {
        emit(name);
    }
});

#[derive(Clone)]
pub struct Claims {
    pub claims: Store<ResourceClaim>,
    /// The pods that some of them were created for, and the classes; only if extended resources may be backed by devices.
    pub extended: Option<(Store<Pod>, Store<DeviceClass>)>,
}

impl Claims {
    /// Whether `name` measures something of claims.
    pub fn measure(&self, name: &str) -> bool {
        let classes = self.extended.as_ref().map(|(_, classes)| classes);
        match OfDeviceClaims::parse(name) {
            None => false,
            Some(OfDeviceClaims::Objects | OfDeviceClaims::Devices(_)) => true,
            Some(OfDeviceClaims::Implied(class)) => {
                classes.is_some_and(|classes| classes.get(&Key::cluster(class)).is_some())
            }
            Some(OfDeviceClaims::Extended(resource)) => {
                classes.is_some_and(|classes| classes.count_by(&BY_EXTENDED, resource) > 0)
            }
        }
    }

    /// Whether `name` counts devices of a class by the implied extended resource, though there may be no such class. Upstream:
    /// resources.go, CalculateUsage: once any name of a quota measures claims, all that they use counts.
    pub fn measure_besides(&self, name: &str) -> bool {
        self.extended.is_some() && matches!(OfDeviceClaims::parse(name), Some(OfDeviceClaims::Implied(_)))
    }

    /// What the claims of a namespace use of each of `names`.
    pub fn usage(&self, namespace: &str, names: &[&str], features: Features, now: Timestamp) -> ResourceList {
        let mut sums: Vec<(&str, OfDeviceClaims<'_>, Quantity)> = names
            .iter()
            .filter_map(|name| Some((*name, OfDeviceClaims::parse(name)?, Quantity::ZERO)))
            .collect();
        for claim in self.claims.in_namespace(namespace) {
            let devices = devices(&claim);
            for (name, of, sum) in &mut sums {
                *sum += match of {
                    OfDeviceClaims::Objects => Quantity::new(1),
                    OfDeviceClaims::Devices(class) => devices.get(*class).copied().unwrap_or_default(),
                    _ => {
                        let requested = self.requested(&devices, of);
                        let charged = self.charged_to_pod(&claim, name, features, now);
                        (requested - charged).max(Quantity::ZERO)
                    }
                };
            }
        }
        sums.into_iter().map(|(name, _, sum)| (name, sum)).collect()
    }

    /// The number of requested devices of the classes behind an extended resource.
    fn requested(&self, devices: &BTreeMap<SmolStr, Quantity>, of: &OfDeviceClaims<'_>) -> Quantity {
        let Some((_, classes)) = &self.extended else { return Quantity::ZERO };
        let stands_for = |class: &str, resource: &str| {
            let class = classes.get(&Key::cluster(class));
            class.is_some_and(|class| class.spec.extended_resource_name.as_deref() == Some(resource))
        };
        let counted = |class: &str| match of {
            OfDeviceClaims::Implied(implied) => class == *implied,
            OfDeviceClaims::Extended(resource) => stands_for(class, resource),
            _ => false,
        };
        devices.iter().filter(|(class, _)| counted(class)).map(|(_, count)| *count).sum()
    }

    /// What the pod that a claim was made for is charged already under `name`.
    fn charged_to_pod(
        &self,
        claim: &ResourceClaim,
        name: &str,
        features: Features,
        now: Timestamp,
    ) -> Quantity {
        let pod = self.pod_of(claim);
        let charged = pod.map(|pod| pods::usage(&[pod], &[name], &Default::default(), features, now));
        charged.and_then(|charged| charged.get(name)).unwrap_or_default()
    }

    /// The pod that a claim was made for, unless another claim is the one that counts.
    fn pod_of(&self, claim: &ResourceClaim) -> Option<Arc<Pod>> {
        let (pods, _) = self.extended.as_ref()?;
        let owner = made_for(claim)?;
        let pod = pods.get(&Key::new(claim.metadata.namespace.as_str(), owner.name.as_str()))?;
        if pod.metadata.uid != owner.uid {
            return None;
        }
        let named = &pod.status.rare().extended_resource_claim;
        if !named.is_empty() {
            return (*named == claim.metadata.name).then_some(pod);
        }
        let rank = |claim: &ResourceClaim| (claim.metadata.creation_timestamp, claim.metadata.name.clone());
        let others = pod.uid().with_str(|uid| self.claims.by(&by_controller(), uid));
        let first =
            others.iter().filter(|other| made_for(other).is_some()).all(|other| rank(other) >= rank(claim));
        first.then_some(pod)
    }
}

/// The pod that the scheduler made a claim for.
fn made_for(claim: &ResourceClaim) -> Option<&flyball_api::OwnerReference> {
    let is_made = claim.metadata.annotations.get(MADE_FOR_POD) == Some("true");
    let owner = claim.metadata.controller().filter(|_| is_made)?;
    (owner.kind == "Pod" && owner.api_version == "v1").then_some(owner)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    devices: Devices,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Devices {
    requests: Option<Vec<Request>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Request {
    exactly: Option<ExactRequest>,
    first_available: Option<Vec<ExactRequest>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExactRequest {
    device_class_name: SmolStr,
    allocation_mode: SmolStr,
    count: i64,
}

impl ExactRequest {
    /// The most devices that can be allocated. An unknown allocation mode counts as zero.
    fn most(&self) -> i64 {
        match self.allocation_mode.as_str() {
            "ExactCount" => self.count,
            "All" => ALL,
            _ => 0,
        }
    }
}

/// How many devices of each class can be allocated to a ResourceClaim. Of alternatives the largest counts, class by class.
fn devices(claim: &ResourceClaim) -> BTreeMap<SmolStr, Quantity> {
    let spec: Spec = claim.spec.to().unwrap_or_default();
    let mut sums: BTreeMap<SmolStr, i64> = BTreeMap::new();
    for request in spec.devices.requests.unwrap_or_default() {
        let alternatives = request.first_available.unwrap_or_default();
        let wishes = if alternatives.is_empty() { Vec::from_iter(request.exactly) } else { alternatives };
        let mut most: BTreeMap<SmolStr, i64> = BTreeMap::new();
        for wish in wishes {
            let held = most.entry(wish.device_class_name.clone()).or_default();
            *held = wish.most().max(*held);
        }
        for (class, count) in most {
            let sum = sums.entry(class).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    sums.into_iter().map(|(class, count)| (class, Quantity::new(count))).collect()
}
