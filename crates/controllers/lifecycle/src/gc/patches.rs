//! The patches of the garbage collector, in two forms: built-in resources take strategic merge patches, which do not
//! depend on the rest of the list; custom resources only take merge patches, which replace the list and so require the
//! version that was read. Pure.

use flyball_api::{ObjectMeta, OwnerReference, Uid};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

/// Removes references to `owners`, from exactly the object `uid`.
pub fn release(uid: &Uid, owners: &[Uid]) -> Value {
    let references: Vec<Value> =
        owners.iter().map(|owner| json!({"$patch": "delete", "uid": owner})).collect();
    json!({"metadata": {"uid": uid, "ownerReferences": references}})
}

/// The same as a merge patch over the object as it was read.
pub fn release_plainly(meta: &ObjectMeta, owners: &[Uid]) -> Value {
    let owners: FxHashSet<&Uid> = owners.iter().collect();
    let kept = meta.owner_references.iter().filter(|reference| !owners.contains(&reference.uid));
    with_references(meta, kept.cloned().collect())
}

/// Sets `blockOwnerDeletion: false` in all references.
pub fn unblock(meta: &ObjectMeta) -> Value {
    let blocking = meta.owner_references.iter().filter(|owner| owner.block_owner_deletion == Some(true));
    let references: Vec<OwnerReference> = blocking.map(unblocked).collect();
    json!({"metadata": {"uid": meta.uid, "ownerReferences": references}})
}

/// The same as a merge patch over the object as it was read.
pub fn unblock_plainly(meta: &ObjectMeta) -> Value {
    with_references(meta, meta.owner_references.iter().map(unblocked).collect())
}

/// Removes a finalizer from the object as it was read; `None` if it does not have it.
pub fn without_finalizer(meta: &ObjectMeta, finalizer: &str) -> Option<Value> {
    if !meta.has_finalizer(finalizer) {
        return None;
    }
    let left: Vec<&str> = meta.finalizers.iter().map(|f| f.as_str()).filter(|f| *f != finalizer).collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    Some(json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left}}))
}

fn unblocked(reference: &OwnerReference) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(false), ..reference.clone() }
}

fn with_references(meta: &ObjectMeta, references: Vec<OwnerReference>) -> Value {
    let references = if references.is_empty() { Value::Null } else { json!(references) };
    json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "ownerReferences": references,
    }})
}
