//! Volumes limit the choice of nodes: bound ones by their node affinity, unbound ones by what could be bound there.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::persistent_volume::PersistentVolume;
use flyball_api::persistent_volume_claim::PersistentVolumeClaim;
use flyball_api::selector::Selector;
use flyball_api::storage_class::StorageClass;
use flyball_api::{Key, Quantity};
use flyball_common::nodeaffinity::NodeSelector;
use smol_str::SmolStr;

use super::filter::Refusal;
use super::snapshot::NodeInfo;
use super::terms;
use crate::objects::Pod;

/// The annotation with the node for which a volume is needed, for the provisioner.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

#[derive(Debug, Clone, Default)]
pub struct Volumes {
    pub claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    pub volumes: BTreeMap<SmolStr, Arc<PersistentVolume>>,
    pub classes: BTreeMap<SmolStr, Arc<StorageClass>>,
}

/// A write that must precede the binding of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// Reserve a volume for a claim (`claimRef`).
    Promise { volume: SmolStr, claim: Key },
    /// Request a volume for the node (`selected-node`).
    Provision { claim: Key },
}

/// The state of a claim.
enum State<'a> {
    Bound(&'a str),
    /// Waits for its first consumer.
    Delayed,
}

impl Volumes {
    fn claims_of<'a>(
        &'a self,
        pod: &'a Pod,
    ) -> impl Iterator<Item = (Key, Option<&'a PersistentVolumeClaim>)> {
        pod.claims().map(|name| {
            let key = Key::new(pod.metadata.namespace.clone(), name);
            let claim = self.claims.get(&key).map(Arc::as_ref);
            (key, claim)
        })
    }

    /// The message if the pod's claims do not allow it to be scheduled at all.
    pub(super) fn obstacle(&self, pod: &Pod) -> Option<String> {
        for (key, claim) in self.claims_of(pod) {
            let Some(claim) = claim else {
                return Some(format!("persistentvolumeclaim {:?} not found", key.name));
            };
            if claim.metadata.is_deleting() {
                return Some(format!("persistentvolumeclaim {:?} is being deleted", key.name));
            }
            if self.state(claim).is_none() {
                return Some("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        None
    }

    fn state<'a>(&self, claim: &'a PersistentVolumeClaim) -> Option<State<'a>> {
        let bound = claim.metadata.annotations.contains_key("pv.kubernetes.io/bind-completed");
        match (claim.spec.volume_name.as_str(), self.class(claim)) {
            (name, _) if !name.is_empty() && bound => Some(State::Bound(name)),
            ("", Some(class)) if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") => {
                Some(State::Delayed)
            }
            _ => None,
        }
    }

    fn class(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        let name = claim.spec.storage_class_name.as_ref()?;
        self.classes.get(name).map(Arc::as_ref)
    }

    /// The smallest matching volume on this node for an unbound claim.
    fn volume_for(
        &self,
        key: &Key,
        claim: &PersistentVolumeClaim,
        info: &NodeInfo,
    ) -> Option<&PersistentVolume> {
        let fitting = self
            .volumes
            .values()
            .filter(|volume| matches(volume, key, claim) && is_accessible_from(volume, info));
        fitting.map(Arc::as_ref).min_by_key(|volume| {
            let reserved = is_reserved_for(volume, key);
            (!reserved, storage(&volume.spec.capacity), volume.metadata.name.clone())
        })
    }

    /// The remaining writes for a pod on this node; `None` if there are none, and binding has only to be waited for.
    pub(super) fn preparations(&self, pod: &Pod, info: &NodeInfo) -> Option<Vec<Preparation>> {
        let mut all = Vec::new();
        let mut waits = false;
        for (key, claim) in self.claims_of(pod) {
            let Some(claim) = claim else { continue };
            if !matches!(self.state(claim), Some(State::Delayed)) {
                continue;
            }
            match self.volume_for(&key, claim, info) {
                Some(volume) if is_reserved_for(volume, &key) => waits = true,
                Some(volume) => {
                    all.push(Preparation::Promise { volume: volume.metadata.name.clone(), claim: key });
                }
                None if claim.metadata.annotations.contains_key(SELECTED_NODE) => waits = true,
                None => all.push(Preparation::Provision { claim: key }),
            }
        }
        (!waits || !all.is_empty()).then_some(all)
    }
}

/// Whether the node has access to the pod's volumes, or can get it.
pub(super) fn check(pod: &Pod, info: &NodeInfo, all: &Volumes) -> Result<(), Refusal> {
    for (key, claim) in all.claims_of(pod) {
        let Some(claim) = claim else { continue };
        match all.state(claim) {
            Some(State::Bound(name)) => match all.volumes.get(name) {
                None => return Err(Refusal::unresolvable(NO_VOLUME)),
                Some(volume) if !is_accessible_from(volume, info) => {
                    return Err(Refusal::unresolvable(NODE_CONFLICT));
                }
                Some(_) => {}
            },
            Some(State::Delayed) => {
                let selected = claim.metadata.annotations.get(SELECTED_NODE);
                let elsewhere = selected.is_some_and(|node| node != info.name().as_str());
                let provisioned = all.class(claim).is_some_and(|class| class.provisioner != NO_PROVISIONER);
                if all.volume_for(&key, claim, info).is_none() && (elsewhere || !provisioned) {
                    return Err(Refusal::unresolvable(BIND_CONFLICT));
                }
            }
            None => {}
        }
    }
    Ok(())
}

fn is_reserved_for(volume: &PersistentVolume, claim: &Key) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|to| to.namespace == claim.namespace && to.name == claim.name)
}

/// Whether a volume matches a claim and is available.
fn matches(volume: &PersistentVolume, key: &Key, claim: &PersistentVolumeClaim) -> bool {
    let (spec, wanted) = (&volume.spec, &claim.spec);
    let free = spec.claim_ref.is_none() && matches!(volume.status.phase.as_str(), "Available" | "");
    let mode = |mode: &Option<SmolStr>| mode.clone().unwrap_or_else(|| SmolStr::new_static("Filesystem"));
    let selected = wanted.selector.as_ref().is_none_or(|selector| {
        Selector::from_object(Some(selector)).is_ok_and(|s| s.matches(&volume.metadata.labels))
    });
    (free || is_reserved_for(volume, key))
        && !volume.metadata.is_deleting()
        && Some(spec.storage_class_name.as_str()) == wanted.storage_class_name.as_deref()
        && wanted.access_modes.iter().all(|mode| spec.access_modes.contains(mode))
        && mode(&spec.volume_mode) == mode(&wanted.volume_mode)
        && storage(&spec.capacity) >= storage(&wanted.resources.requests)
        && selected
}

fn storage(amounts: &flyball_api::ResourceList) -> Quantity {
    amounts.get("storage").unwrap_or(Quantity::ZERO)
}

/// Whether a volume's node affinity accepts a node.
fn is_accessible_from(volume: &PersistentVolume, info: &NodeInfo) -> bool {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct VolumeAffinity {
        required: Option<NodeSelector>,
    }
    let Some(raw) = &volume.spec.node_affinity else { return true };
    let affinity: VolumeAffinity = serde_json::from_value(raw.to_value()).unwrap_or_default();
    affinity.required.is_none_or(|selector| terms::matches(&selector, &info.node))
}
