//! The owners of the claims of a pod: the retention policy, as owner references for the garbage collector. Pure.
//!
//! | when scaled | when deleted | owner of a claim in use | after its pod is scaled down   |
//! | ----------- | ------------ | ----------------------- | ------------------------------- |
//! | Retain      | Retain       | none                    | none                            |
//! | Retain      | Delete       | the set                 | the set                         |
//! | Delete      | Retain       | none                    | the pod                         |
//! | Delete      | Delete       | the set                 | the pod                         |

use flyball_api::pod::Pod;
use flyball_api::{OwnerReference, PersistentVolumeClaim, Resource, StatefulSet, Uid};
use flyball_common::adoption::controller_reference;
use smol_str::SmolStr;

const DELETE: &str = "Delete";

/// The pod of a claim.
#[derive(Debug, Clone)]
pub struct Holder {
    pub name: SmolStr,
    /// Its uid; empty for a pod that does not exist yet.
    pub uid: Uid,
    /// Whether its ordinal is within `spec.replicas`.
    pub wanted: bool,
}

/// What to do about one claim.
#[derive(Debug, Default, PartialEq)]
pub struct Ownership {
    /// Another controller owns the claim, against the policy.
    pub is_contested: bool,
    /// The owner references it should have, if they differ.
    pub correction: Option<Vec<OwnerReference>>,
}

/// The owner that a claim should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    None,
    Set,
    Pod,
}

/// Whether claims are deleted when their pod is scaled down, and when the set is deleted.
fn policy(set: &StatefulSet) -> (bool, bool) {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    policy.map_or((false, false), |policy| (policy.when_scaled == DELETE, policy.when_deleted == DELETE))
}

fn owner(set: &StatefulSet, holder: &Holder) -> Owner {
    match policy(set) {
        (true, _) if !holder.wanted => Owner::Pod,
        (_, true) => Owner::Set,
        _ => Owner::None,
    }
}

/// Checks the owner references of one claim.
pub fn ownership(claim: &PersistentVolumeClaim, set: &StatefulSet, holder: &Holder) -> Ownership {
    let references = &claim.metadata.owner_references;
    let set_uid = &set.metadata.uid;
    let names_set = |reference: &OwnerReference| names::<StatefulSet>(reference, &set.metadata.name);
    let names_pod = |reference: &OwnerReference| names::<Pod>(reference, &holder.name);
    let has = |uid: &Uid| references.iter().any(|reference| reference.uid == *uid);

    let is_contested = is_contested(claim, set, holder);
    // Owned by a deleted set or pod of the same name: the garbage collector will delete the claim.
    let is_stale = is_stale(references, names_set, set_uid) || is_stale(references, names_pod, &holder.uid);
    let is_right = if is_stale {
        true
    } else if is_contested {
        !has(set_uid) && !has(&holder.uid)
    } else {
        let wanted = owner(set, holder);
        let ours = |reference: &&OwnerReference| [set_uid, &holder.uid].contains(&&reference.uid);
        references.iter().filter(ours).all(OwnerReference::is_controller)
            && has(set_uid) == (wanted == Owner::Set)
            && has(&holder.uid) == (wanted == Owner::Pod)
    };
    let correction = (!is_right).then(|| {
        let theirs = references.iter().filter(|reference| !names_set(reference) && !names_pod(reference));
        let ours = match owner(set, holder) {
            _ if is_contested => None,
            Owner::None => None,
            Owner::Set => Some(controller_reference(set)),
            Owner::Pod => Some(pod_reference(holder)),
        };
        theirs.cloned().chain(ours).collect()
    });
    Ownership { is_contested, correction }
}

/// Whether the garbage collector will delete a claim because of an earlier pod of this name: a new pod must not use it.
pub fn is_left_over(claim: &PersistentVolumeClaim, set: &StatefulSet, holder: &Holder) -> bool {
    let (goes_when_scaled, _) = policy(set);
    let names_pod = |reference: &OwnerReference| names::<Pod>(reference, &holder.name);
    goes_when_scaled && is_stale(&claim.metadata.owner_references, names_pod, &holder.uid)
}

/// Whether another controller owns the claim although the policy requires the set or the pod as owner.
fn is_contested(claim: &PersistentVolumeClaim, set: &StatefulSet, holder: &Holder) -> bool {
    let is_other = |reference: &OwnerReference| {
        if names::<StatefulSet>(reference, &set.metadata.name) {
            reference.uid != set.metadata.uid
        } else if names::<Pod>(reference, &holder.name) {
            reference.uid != holder.uid
        } else {
            reference.is_controller()
        }
    };
    policy(set) != (false, false) && claim.metadata.owner_references.iter().any(is_other)
}

/// Whether a reference is to an object of this kind and name, with any uid.
fn names<T: Resource>(reference: &OwnerReference, name: &str) -> bool {
    reference.api_version == T::TYPE.api_version() && reference.kind == T::TYPE.kind && reference.name == name
}

fn is_stale(references: &[OwnerReference], names: impl Fn(&OwnerReference) -> bool, uid: &Uid) -> bool {
    references.iter().find(|reference| names(reference)).is_some_and(|reference| reference.uid != *uid)
}

fn pod_reference(holder: &Holder) -> OwnerReference {
    OwnerReference {
        api_version: Pod::TYPE.api_version(),
        kind: Pod::TYPE.kind,
        name: holder.name.clone(),
        uid: holder.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
