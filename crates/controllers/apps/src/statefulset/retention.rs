//! Who owns a pod's claims: the retention policy, written as owner references for the garbage collector. Pure.
//!
//! | when scaled | when deleted | owner of a claim in use | of one whose pod is scaled away |
//! | ----------- | ------------ | ----------------------- | ------------------------------- |
//! | Retain      | Retain       | nobody                  | nobody                          |
//! | Retain      | Delete       | the set                 | the set                         |
//! | Delete      | Retain       | nobody                  | the pod                         |
//! | Delete      | Delete       | the set                 | the pod                         |

use flyball_api::pod::Pod;
use flyball_api::{OwnerReference, PersistentVolumeClaim, Resource, StatefulSet, Uid};
use flyball_common::claim::controller_reference;
use smol_str::SmolStr;

const DELETE: &str = "Delete";

/// The pod that a claim belongs to, as far as ownership is concerned.
#[derive(Debug, Clone)]
pub struct Holder {
    pub name: SmolStr,
    /// Its identity; empty for a pod that is yet to be made.
    pub uid: Uid,
    /// Whether the set still wants it.
    pub wanted: bool,
}

/// What is to be said and done about one claim.
#[derive(Debug, Default, PartialEq)]
pub struct Ownership {
    /// Somebody else manages the claim, against the policy: the user should know.
    pub is_contested: bool,
    /// The references it should have instead of those it has.
    pub correction: Option<Vec<OwnerReference>>,
}

/// Who should own a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    Set,
    Pod,
}

/// Whether claims go when their pod is scaled away, and when the set is deleted.
fn policy(set: &StatefulSet) -> (bool, bool) {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    policy.map_or((false, false), |policy| (policy.when_scaled == DELETE, policy.when_deleted == DELETE))
}

fn owner(set: &StatefulSet, holder: &Holder) -> Owner {
    match policy(set) {
        (true, _) if !holder.wanted => Owner::Pod,
        (_, true) => Owner::Set,
        _ => Owner::Nobody,
    }
}

/// Judges the references of one claim.
pub fn judge(claim: &PersistentVolumeClaim, set: &StatefulSet, holder: &Holder) -> Ownership {
    let references = &claim.metadata.owner_references;
    let set_uid = &set.metadata.uid;
    let names_set = |reference: &OwnerReference| names::<StatefulSet>(reference, &set.metadata.name);
    let names_pod = |reference: &OwnerReference| names::<Pod>(reference, &holder.name);
    let has = |uid: &Uid| references.iter().any(|reference| reference.uid == *uid);

    let is_contested = is_contested(claim, set, holder);
    // Left behind by a set or pod of the same name: the garbage collector is on its way.
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
            Owner::Nobody => None,
            Owner::Set => Some(controller_reference(set)),
            Owner::Pod => Some(pod_reference(holder)),
        };
        theirs.cloned().chain(ours).collect()
    });
    Ownership { is_contested, correction }
}

/// Whether a claim still waits for the garbage collector because of an earlier pod of this name: a new pod must
/// not use it.
pub fn is_left_over(claim: &PersistentVolumeClaim, set: &StatefulSet, holder: &Holder) -> bool {
    let (goes_when_scaled, _) = policy(set);
    let names_pod = |reference: &OwnerReference| names::<Pod>(reference, &holder.name);
    goes_when_scaled && is_stale(&claim.metadata.owner_references, names_pod, &holder.uid)
}

/// Whether somebody but the set and its pod manages the claim while the policy asks us to.
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

/// Whether a reference is to an object of this kind and name, whichever it was.
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
