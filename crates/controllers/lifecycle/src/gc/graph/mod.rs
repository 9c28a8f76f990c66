//! The owners and dependents that the caches show, and which objects to examine after a change. Pure: it decides
//! nothing about deletion, so a mistake in it costs a request, never an object.
//!
//! An owner that is referred to and that no cache has shown is in the graph as a *virtual* node. It is examined
//! until a cache shows it, or the server says that it does not exist. An owner that is known to be gone stays
//! as *vanished* for as long as objects refer to it, so the graph is no larger than what is referred to.

mod node;
mod nodes;
mod references;

use flyball_api::intern::SharedList;
use flyball_api::{ObjectMeta, OwnerReference, Uid, room};
use flyball_cache::MetaChange;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::identity::{Fit, Identity, Item, Kind, alternative, fit, is_name_of};
use super::{FOREGROUND, ORPHAN};
use node::{Doubt, doubt};
pub use node::{Node, Presence};
use nodes::Nodes;
use references::ReferenceIndex;

/// What follows from a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// Check whether this object is to be deleted, or its foreground deletion can be completed.
    Examine(Item),
    /// The same, with backoff.
    ExamineLater(Item),
    /// Remove the references of the dependents to this object, then its finalizer.
    Orphan(Item),
    /// An event: an object refers to an owner in another namespace.
    Misplaced { dependent: Identity, reference: OwnerReference },
}

/// All objects and their owners.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Nodes,
    /// Of the objects with many owners.
    indexes: FxHashMap<Uid, ReferenceIndex>,
    /// How many owner references were looked at to find those to one owner.
    #[cfg(test)]
    pub compared: std::cell::Cell<usize>,
}

impl Graph {
    pub fn get(&self, uid: &Uid) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// All nodes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    /// The objects that refer to `uid`, ordered by uid.
    pub fn dependents(&self, uid: &Uid) -> impl Iterator<Item = &Node> {
        let dependents = self.nodes.get(uid).map(|node| node.dependents.iter());
        dependents.into_iter().flatten().filter_map(|dependent| self.nodes.get(dependent))
    }

    /// The dependents that block the foreground deletion of `uid`.
    pub fn blocking<'a>(&'a self, uid: &'a Uid) -> impl Iterator<Item = &'a Node> {
        self.dependents(uid).filter(move |dependent| {
            self.references(dependent, uid).any(|reference| reference.block_owner_deletion == Some(true))
        })
    }

    /// The references of an object to one owner.
    fn references<'a>(
        &'a self,
        dependent: &'a Node,
        owner: &'a Uid,
    ) -> impl Iterator<Item = &'a OwnerReference> {
        let owners = &*dependent.owners;
        let (found, few): (&[u32], &[OwnerReference]) = match self.indexes.get(&dependent.identity.uid) {
            Some(index) => (index.find(owners, owner), &[]),
            None => (&[], owners),
        };
        #[cfg(test)]
        self.compared.set(self.compared.get() + found.len() + few.len());
        let found = found.iter().map(|position| &owners[*position as usize]);
        found.chain(few.iter().filter(move |reference| reference.uid == *owner))
    }

    /// Replaces the owner references of an object, but no links to it.
    fn set_owners(&mut self, uid: &Uid, owners: SharedList<OwnerReference>) {
        match ReferenceIndex::of(&owners) {
            Some(index) => {
                self.indexes.insert(uid.clone(), index);
            }
            None => self.remove_index(uid),
        }
        if let Some(node) = self.nodes.get_mut(uid) {
            node.owners = owners;
        }
    }

    fn remove_index(&mut self, uid: &Uid) {
        self.indexes.remove(uid);
        if let Some(room) = room::to_keep(self.indexes.len(), self.indexes.capacity()) {
            self.indexes.shrink_to(room);
        }
    }

    /// Applies a change that a cache has shown.
    pub fn observe(&mut self, kind: &Kind, change: &MetaChange<'_>) -> Vec<Trigger> {
        let mut triggers = vec![];
        match (change.new, change.old) {
            (Some(meta), _) => self.seen(Identity::of(kind, meta), meta, &mut triggers),
            (None, Some(meta)) => self.remove(&meta.uid, &mut triggers),
            (None, None) => {}
        }
        triggers
    }

    /// Applies that the server has no object with this identity.
    pub fn absent(&mut self, identity: &Identity) -> Vec<Trigger> {
        let mut triggers = vec![];
        let Some(node) = self.nodes.get(&identity.uid).filter(|node| !node.has_vanished()) else {
            return triggers;
        };
        let fits: Vec<(&Node, Fit)> = self
            .dependents(&identity.uid)
            .map(|dependent| (dependent, self.fit_of(dependent, identity)))
            .collect();
        let is_another = match node.is_observed() {
            true => node.identity != *identity,
            // The references of its dependents differ: it may exist under another identity.
            false => fits.iter().any(|(_, fit)| fit.differs),
        };
        if !is_another {
            self.remove(&identity.uid, &mut triggers);
            return triggers;
        }
        triggers.extend(fits.iter().filter(|(_, fit)| fit.matches).map(|(dependent, _)| dependent.examine()));
        if !node.is_observed() && node.identity == *identity {
            let differing = fits.iter().filter(|(_, fit)| fit.differs).map(|(dependent, _)| dependent);
            let claims =
                differing.map(|node| (&node.identity.namespace, self.references(node, &identity.uid)));
            if let Some(other) = alternative(identity, claims) {
                triggers.push(Trigger::ExamineLater(other.item()));
                if let Some(node) = self.nodes.get_mut(&identity.uid) {
                    node.identity = other;
                }
            }
        }
        triggers
    }

    /// Examines the virtual nodes of these kinds, which the server serves by now.
    pub fn known(&self, kinds: &[Kind]) -> Vec<Trigger> {
        let is_known = |identity: &Identity| {
            let mut kinds = kinds.iter();
            kinds.any(|kind| {
                is_name_of(&identity.kind.kind, &kind.kind) && kind.api_version == identity.kind.api_version
            })
        };
        let is_virtual = |node: &&Node| node.presence == Presence::Virtual;
        let unseen = self.nodes.iter().filter(is_virtual).filter(|node| is_known(&node.identity));
        let mut items: Vec<Item> = unseen.map(|node| node.identity.item()).collect();
        items.sort_unstable();
        items.into_iter().map(Trigger::Examine).collect()
    }

    /// Applies that an owner has lost its finalizer. If a cache shows it with one after that, its deletion was requested
    /// again.
    pub fn finished(&mut self, uid: &Uid) {
        if let Some(node) = self.nodes.get_mut(uid) {
            (node.waiting, node.orphaning) = (false, false);
        }
    }

    /// Removes the objects of a kind that is no longer watched. Those that others refer to become virtual.
    pub fn unfollow(&mut self, kind: &Kind) -> Vec<Trigger> {
        let mut triggers = vec![];
        for uid in self.shown_as(kind) {
            let Some(node) = self.nodes.get(&uid) else { continue };
            if node.dependents.is_empty() {
                self.remove(&uid, &mut triggers);
                continue;
            }
            let virtual_one =
                Node { dependents: node.dependents.clone(), ..Node::virtual_one(node.identity.clone()) };
            triggers.push(virtual_one.examine());
            let owners = node.owners.clone();
            self.set_owners(&uid, SharedList::default());
            self.unlink(&uid, owners.iter(), &mut triggers);
            self.nodes.insert(virtual_one);
        }
        triggers
    }

    /// Changes the version of the objects of a kind, which another cache shows from now on. Owners and dependents stay.
    pub fn succeed(&mut self, old: &Kind, new: &Kind) {
        for node in self.nodes.iter_mut().filter(|node| node.is_shown_as(old)) {
            node.identity.kind = new.clone();
        }
    }

    /// Examines the objects of a kind that its cache does not show: they were deleted while they were not watched. Until
    /// the server has confirmed it, they stay.
    pub fn unshown(&mut self, kind: &Kind, is_shown: impl Fn(&Identity) -> bool) -> Vec<Trigger> {
        let mut triggers = vec![];
        for uid in self.shown_as(kind) {
            let node = self.nodes.get_mut(&uid).filter(|node| !is_shown(&node.identity));
            let Some(node) = node else { continue };
            // No deletion event will come for it.
            (node.deleting, node.waiting, node.orphaning) = (false, false, false);
            triggers.push(node.examine());
        }
        triggers
    }

    /// Whether the owner that an object in `namespace` refers to is known to be gone, in whatever version it was
    /// shown.
    pub fn has_vanished(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let node = self.nodes.get(&reference.uid).filter(|node| node.has_vanished());
        node.is_some_and(|node| {
            let known = &node.identity;
            (known.namespace.is_empty() || known.namespace == *namespace)
                && known.name == reference.name
                && is_name_of(&reference.kind, &known.kind.kind)
                && known.group() == reference.group()
        })
    }

    /// Whether a cache shows the owner that an object in `namespace` refers to, just as it is referred to, and not
    /// waiting for its dependents.
    pub fn is_living(&self, reference: &OwnerReference, namespace: &SmolStr) -> bool {
        let node = self.nodes.get(&reference.uid).filter(|node| node.is_observed() && !node.waiting);
        node.is_some_and(|node| doubt(node, reference, namespace).is_none())
    }

    /// The objects that a cache shows as this kind, ordered by uid.
    fn shown_as(&self, kind: &Kind) -> Vec<Uid> {
        let nodes = self.nodes.iter().filter(|node| node.is_shown_as(kind));
        let mut uids: Vec<Uid> = nodes.map(|node| node.identity.uid.clone()).collect();
        uids.sort_unstable();
        uids
    }

    fn seen(&mut self, identity: Identity, meta: &ObjectMeta, triggers: &mut Vec<Trigger>) {
        let uid = identity.uid.clone();
        if self.nodes.get(&uid).is_some_and(|node| !node.is_observed() && node.identity != identity) {
            self.examine_mismatches(&identity, triggers);
        }
        let node = self.nodes.get_or_insert(|| Node::virtual_one(identity.clone()), &uid);
        if !node.is_observed() {
            node.identity = identity;
            node.presence = Presence::Observed;
        }
        self.own(&uid, &meta.owner_references, triggers);
        let Some(node) = self.nodes.get_mut(&uid) else { return };
        // Only a restore of etcd undoes a deletion. Nothing else would show that it has to be repeated.
        let is_undone = node.deleting && !meta.is_deleting();
        node.deleting = meta.is_deleting();
        let orphaning = node.deleting && meta.has_finalizer(ORPHAN);
        // With both finalizers, orphaning comes first.
        let waiting = node.deleting && !orphaning && meta.has_finalizer(FOREGROUND);
        let (starts_orphaning, starts_waiting) = (orphaning && !node.orphaning, waiting && !node.waiting);
        (node.orphaning, node.waiting) = (orphaning, waiting);
        if is_undone {
            triggers.push(node.examine());
        }
        if starts_orphaning {
            triggers.push(Trigger::Orphan(node.identity.item()));
        }
        if starts_waiting {
            let itself = node.examine();
            triggers.extend(self.dependents(&uid).map(Node::examine));
            triggers.push(itself);
        }
    }

    /// How the references of a dependent match the known or assumed identity of its owner.
    fn fit_of(&self, dependent: &Node, owner: &Identity) -> Fit {
        fit(owner, self.references(dependent, &owner.uid), &dependent.identity.namespace)
    }

    /// Examines the dependents whose references do not match the identity of their owner.
    fn examine_mismatches(&self, owner: &Identity, triggers: &mut Vec<Trigger>) {
        for dependent in self.dependents(&owner.uid) {
            let namespace = &dependent.identity.namespace;
            if !self.fit_of(dependent, owner).differs {
                continue;
            }
            if !owner.namespace.is_empty() && owner.namespace != *namespace {
                let reference = self.references(dependent, &owner.uid).next();
                triggers.extend(reference.map(|reference| misplaced(&dependent.identity, reference)));
            }
            triggers.push(dependent.examine());
        }
    }

    /// Gives `uid` these owners instead of those it had.
    fn own(&mut self, uid: &Uid, owners: &SharedList<OwnerReference>, triggers: &mut Vec<Trigger>) {
        let Some(node) = self.nodes.get(uid) else { return };
        if node.owners == *owners {
            return;
        }
        let before = node.owners.clone();
        let after = owners.clone();
        let had: FxHashMap<&Uid, &OwnerReference> = before.iter().map(|owner| (&owner.uid, owner)).collect();
        let has: FxHashMap<&Uid, &OwnerReference> = after.iter().map(|owner| (&owner.uid, owner)).collect();
        let blocks = |reference: &OwnerReference| reference.block_owner_deletion == Some(true);
        let unblocked = before
            .iter()
            .filter(|owner| blocks(owner) && !has.get(&owner.uid).is_some_and(|owner| blocks(owner)));
        let waiting = unblocked.filter_map(|owner| self.nodes.get(&owner.uid)).filter(|owner| owner.waiting);
        triggers.extend(waiting.map(Node::examine));
        self.set_owners(uid, after.clone());
        let added = after.iter().filter(|owner| !had.contains_key(&owner.uid));
        self.link(uid, added, triggers);
        let mut is_examined = false;
        for owner in before.iter() {
            match has.get(&owner.uid) {
                Some(still) => is_examined |= !is_same_target(still, owner),
                None => {
                    // It may have been the owner that kept it, or the one that could not be read.
                    is_examined |= !after.is_empty();
                    self.remove_dependent(&owner.uid, uid);
                }
            }
        }
        if is_examined {
            triggers.extend(self.nodes.get(uid).map(Node::examine));
        }
    }

    /// Makes `uid` a dependent of these owners. It is examined if a reference does not match its owner, or an owner waits
    /// for its dependents.
    fn link<'a>(
        &mut self,
        uid: &Uid,
        owners: impl Iterator<Item = &'a OwnerReference>,
        triggers: &mut Vec<Trigger>,
    ) {
        let Some(node) = self.nodes.get(uid) else { return };
        let (dependent, itself) = (node.identity.clone(), node.examine());
        let (mut is_doubtful, mut is_awaited) = (false, false);
        for reference in owners {
            let Some(owner) = self.nodes.get_mut(&reference.uid) else {
                let mut owner = Node::virtual_one(Identity::claimed(reference, &dependent.namespace));
                owner.dependents.insert(uid.clone());
                triggers.push(owner.examine());
                self.nodes.insert(owner);
                continue;
            };
            owner.dependents.insert(uid.clone());
            is_awaited |= owner.waiting;
            if is_doubtful {
                continue;
            }
            let doubt = doubt(owner, reference, &dependent.namespace);
            if doubt == Some(Doubt::OtherNamespace) && owner.is_observed() {
                triggers.push(misplaced(&dependent, reference));
            }
            is_doubtful = doubt.is_some();
        }
        if is_doubtful || is_awaited {
            triggers.push(itself);
        }
    }

    /// Removes an object that is gone. It stays as vanished while others refer to it.
    fn remove(&mut self, uid: &Uid, triggers: &mut Vec<Trigger>) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        node.dependents.remove(uid);
        let owners = node.owners.clone();
        (node.deleting, node.waiting, node.orphaning) = (false, false, false);
        node.presence = Presence::Vanished;
        self.set_owners(uid, SharedList::default());
        self.unlink(uid, owners.iter(), triggers);
        triggers.extend(self.dependents(uid).map(Node::examine));
        self.forget_unneeded(uid);
    }

    fn remove_dependent(&mut self, owner: &Uid, uid: &Uid) {
        if let Some(node) = self.nodes.get_mut(owner) {
            node.dependents.remove(uid);
            self.forget_unneeded(owner);
        }
    }

    /// Removes a node that no cache shows, once it is not referred to any more.
    fn forget_unneeded(&mut self, uid: &Uid) {
        if self.nodes.get(uid).is_none_or(|node| node.is_observed() || !node.dependents.is_empty()) {
            return;
        }
        self.nodes.remove(uid);
    }

    /// Removes `uid` from the dependents of its owners. An owner that only waited for it is examined.
    fn unlink<'a>(
        &mut self,
        uid: &Uid,
        owners: impl Iterator<Item = &'a OwnerReference>,
        triggers: &mut Vec<Trigger>,
    ) {
        for reference in owners {
            self.remove_dependent(&reference.uid, uid);
            let waiting = self.nodes.get(&reference.uid).filter(|owner| owner.waiting);
            let Some(owner) = waiting else { continue };
            if self.blocking(&reference.uid).next().is_none() {
                triggers.push(owner.examine());
            }
        }
    }
}

fn is_same_target(one: &OwnerReference, other: &OwnerReference) -> bool {
    (&one.name, &one.kind, &one.api_version) == (&other.name, &other.kind, &other.api_version)
}

fn misplaced(dependent: &Identity, reference: &OwnerReference) -> Trigger {
    Trigger::Misplaced { dependent: dependent.clone(), reference: reference.clone() }
}
