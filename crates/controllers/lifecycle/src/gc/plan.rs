//! What is to become of one object, given how its owners are. Pure.

use flyball_api::{ObjectMeta, ResourceVersion, Uid};
use flyball_client::Propagation;

use super::{FOREGROUND, ORPHAN};

/// How an owner is, by the server's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// There, and not waiting for its dependents to go.
    Solid,
    Absent,
    /// Being deleted, after its dependents.
    Waiting,
    /// Gone, and its dependents were to outlive it; this one was seen too late to be told.
    Outlived,
}

impl Standing {
    /// The standing of an owner that exists.
    pub fn of(owner: &ObjectMeta) -> Self {
        match owner.is_deleting() && owner.has_finalizer(FOREGROUND) {
            true => Self::Waiting,
            false => Self::Solid,
        }
    }
}

/// What is to be done with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    /// It lives on, without these owners.
    Release(Vec<Uid>),
    Delete {
        /// What becomes of its own dependents.
        propagation: Propagation,
        /// Its owners shall not wait for it: one of its dependents waits for *its* dependents, which may be a
        /// circle.
        unblock_owners: bool,
    },
}

/// What the graph knows about the dependents of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dependents {
    pub any: bool,
    /// One of them waits for its own dependents.
    pub any_waiting: bool,
}

/// Whether an object's owners matter at all. What is being deleted will be gone, and how, is settled.
pub fn is_judged(object: &ObjectMeta) -> bool {
    !object.is_deleting() && !object.owner_references.is_empty()
}

/// Judges an object by its owners; `standings` has one entry for each of its references, in their order.
pub fn judge(object: &ObjectMeta, standings: &[Standing], dependents: Dependents) -> Verdict {
    let has = |standing| standings.contains(&standing);
    if !is_judged(object) || standings.len() != object.owner_references.len() {
        return Verdict::Keep;
    }
    if has(Standing::Solid) {
        // A waiting owner would wait for ever for an object that another one keeps alive.
        let lost = object.owner_references.iter().zip(standings).filter(|(_, s)| **s != Standing::Solid);
        let lost: Vec<Uid> = lost.map(|(reference, _)| reference.uid.clone()).collect();
        return if lost.is_empty() { Verdict::Keep } else { Verdict::Release(lost) };
    }
    if has(Standing::Outlived) {
        // Without those owners it is looked at again.
        let outlived =
            object.owner_references.iter().zip(standings).filter(|(_, s)| **s == Standing::Outlived);
        return Verdict::Release(outlived.map(|(reference, _)| reference.uid.clone()).collect());
    }
    if has(Standing::Waiting) && dependents.any {
        return Verdict::Delete {
            propagation: Propagation::Foreground,
            unblock_owners: dependents.any_waiting,
        };
    }
    // Who has asked for a way of deletion before gets it.
    let propagation = match () {
        () if object.has_finalizer(ORPHAN) => Propagation::Orphan,
        () if object.has_finalizer(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    };
    Verdict::Delete { propagation, unblock_owners: false }
}

/// The version that a deletion insists on. `refused` is the object as an earlier deletion insisted on it, by the
/// server's word and in vain: if its owners have not changed since, the verdict holds for any version, and an object
/// that changes all the time does not escape.
///
/// Upstream: operations.go, deleteObject.
pub fn version_to_delete(refused: Option<&ObjectMeta>, seen: &ObjectMeta) -> Option<ResourceVersion> {
    let is_hot = refused.is_some_and(|refused| {
        refused.resource_version != seen.resource_version && refused.owner_references == seen.owner_references
    });
    (!is_hot).then_some(seen.resource_version)
}
