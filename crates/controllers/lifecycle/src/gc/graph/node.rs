//! One object of the graph, and whether a reference points to it.

use std::collections::BTreeSet;

use flyball_api::intern::SharedList;
use flyball_api::{OwnerReference, Uid};
use smol_str::SmolStr;

use super::Trigger;
use crate::gc::identity::{Identity, Kind};

/// What is known of an object's existence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is referred to, and no cache has shown it.
    Virtual,
    Observed,
    /// A cache has shown its deletion, or the server has said that it does not exist.
    Vanished,
}

/// An object that exists, one that may exist, or one that others still refer to.
#[derive(Debug, Clone)]
pub struct Node {
    /// For a virtual node, what the reference of one of its dependents says.
    pub identity: Identity,
    /// Shared with the caches, and with siblings.
    pub owners: SharedList<OwnerReference>,
    pub dependents: Dependents,
    pub presence: Presence,
    pub deleting: bool,
    /// Whether it waits for its dependents to be deleted.
    pub waiting: bool,
    /// Whether it waits for its dependents to be orphaned.
    pub orphaning: bool,
}

impl Node {
    pub(super) fn virtual_one(identity: Identity) -> Self {
        Self {
            identity,
            owners: SharedList::default(),
            dependents: Dependents::default(),
            presence: Presence::Virtual,
            deleting: false,
            waiting: false,
            orphaning: false,
        }
    }

    /// Whether a cache shows it.
    pub fn is_observed(&self) -> bool {
        self.presence == Presence::Observed
    }

    /// Whether it is known to be gone.
    pub fn has_vanished(&self) -> bool {
        self.presence == Presence::Vanished
    }

    pub(super) fn is_shown_as(&self, kind: &Kind) -> bool {
        self.is_observed() && self.identity.kind == *kind
    }

    pub(super) fn examine(&self) -> Trigger {
        Trigger::Examine(self.identity.item())
    }
}

/// The objects that refer to a node, ordered by uid. Most nodes have none, so that costs only a pointer.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::box_collection,
    reason = "a set in place takes three pointers, also where there are no dependents"
)]
pub struct Dependents(Option<Box<BTreeSet<Uid>>>);

impl Dependents {
    pub(super) fn insert(&mut self, uid: Uid) {
        self.0.get_or_insert_default().insert(uid);
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        self.0.take_if(|uids| uids.remove(uid) && uids.is_empty());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Uid> + use<'_> {
        self.0.iter().flat_map(|uids| uids.iter())
    }
}

/// Why a reference may not point to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    Vanished,
    /// The owner is in another namespace.
    OtherNamespace,
    /// The owner has another kind, version or name.
    OtherCoordinates,
    /// The owner was first referred to by a cluster-scoped object; it may be namespaced.
    ScopeUnknown,
}

/// Why a reference of an object in `namespace` may not point to `owner`; `None` if it does.
pub(super) fn doubt(owner: &Node, reference: &OwnerReference, namespace: &SmolStr) -> Option<Doubt> {
    let known = &owner.identity;
    if owner.has_vanished() {
        Some(Doubt::Vanished)
    } else if !known.namespace.is_empty() && known.namespace != *namespace {
        Some(Doubt::OtherNamespace)
    } else if !known.is_meant_by(reference) {
        Some(Doubt::OtherCoordinates)
    } else if known.namespace != *namespace && !owner.is_observed() {
        Some(Doubt::ScopeUnknown)
    } else {
        None
    }
}
