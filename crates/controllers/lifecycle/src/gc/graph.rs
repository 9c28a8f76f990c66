//! Who owns whom, as far as the caches tell, and which objects a change calls to look at. Pure: it decides
//! nothing about deletion, so a mistake in it costs a request, never an object.
//!
//! An owner that somebody refers to and no cache has shown is in the graph as a *virtual* node. It is looked
//! at until a cache shows it, or the server says that it does not exist. An owner that is known to be gone stays
//! as *vanished* for as long as somebody refers to it, so this memory is no larger than what is referred to.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::{ObjectMeta, OwnerReference, Uid, room};
use flyball_cache::MetaChange;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::identity::{Fit, Identity, Item, Kind, alternative, fit};
use super::{FOREGROUND, ORPHAN};

/// What a change calls for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Look whether this object is to be deleted, or may go.
    Examine(Item),
    /// The same, after a while that grows.
    ExamineLater(Item),
    /// Free the dependents of this object, then let it go.
    Orphan(Item),
    /// Tell the user that an object refers to an owner that is in another namespace.
    Misplaced { dependent: Identity, reference: OwnerReference },
}

/// What is known of an object's existence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Somebody refers to it, and no cache has shown it.
    Virtual,
    Observed,
    /// A cache has shown its end, or the server has said that it does not exist.
    Vanished,
}

/// An object, one that is supposed to be, or one that others still refer to.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is; for a virtual node, what one of its dependents says it is.
    pub identity: Identity,
    /// Its owners. Equal lists of siblings are one.
    pub owners: Arc<[OwnerReference]>,
    pub dependents: BTreeSet<Uid>,
    /// What is known of its existence.
    pub presence: Presence,
    /// Whether its deletion has been asked for.
    pub deleting: bool,
    /// Whether it waits for its dependents to be deleted.
    pub waiting: bool,
    /// Whether it waits for its dependents to be freed.
    pub orphaning: bool,
}

impl Node {
    fn virtual_one(identity: Identity) -> Self {
        Self {
            identity,
            owners: Arc::default(),
            dependents: BTreeSet::new(),
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

    fn is_shown_as(&self, kind: &Kind) -> bool {
        self.is_observed() && self.identity.kind == kind.kind && self.identity.api_version == kind.api_version
    }

    fn examine(&self) -> Effect {
        Effect::Examine(self.identity.item())
    }
}

/// All objects and their owners.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: FxHashMap<Uid, Node>,
}

impl Graph {
    /// The node of an object.
    pub fn get(&self, uid: &Uid) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// All nodes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// How many objects it knows or supposes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it knows of nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Those that refer to `uid`, ordered by uid.
    pub fn dependents(&self, uid: &Uid) -> impl Iterator<Item = &Node> {
        let dependents = self.nodes.get(uid).map(|node| &node.dependents);
        dependents.into_iter().flatten().filter_map(|dependent| self.nodes.get(dependent))
    }

    /// The dependents without whose end `uid` may not go when it is deleted in the foreground.
    pub fn blocking<'a>(&'a self, uid: &'a Uid) -> impl Iterator<Item = &'a Node> {
        let blocks = |reference: &OwnerReference| {
            reference.uid == *uid && reference.block_owner_deletion == Some(true)
        };
        self.dependents(uid).filter(move |dependent| dependent.owners.iter().any(blocks))
    }

    /// Takes in what a cache has shown.
    pub fn observe(&mut self, kind: &Kind, change: &MetaChange<'_>) -> Vec<Effect> {
        let mut effects = vec![];
        match (change.new, change.old) {
            (Some(meta), _) => self.seen(Identity::of(kind, meta), meta, &mut effects),
            (None, Some(meta)) => self.bury(&meta.uid, &mut effects),
            (None, None) => {}
        }
        effects
    }

    /// Takes in that the server does not know an object by this identity.
    pub fn absent(&mut self, identity: &Identity) -> Vec<Effect> {
        let mut effects = vec![];
        let Some(node) = self.nodes.get(&identity.uid).filter(|node| !node.has_vanished()) else {
            return effects;
        };
        let fits: Vec<(&Node, Fit)> = self
            .dependents(&identity.uid)
            .map(|dependent| (dependent, fit(identity, &dependent.owners, &dependent.identity.namespace)))
            .collect();
        let is_another = match node.is_observed() {
            true => node.identity != *identity,
            // Dependents disagree about what their owner is: it may exist as something else.
            false => fits.iter().any(|(_, fit)| fit.differs),
        };
        if !is_another {
            self.bury(&identity.uid, &mut effects);
            return effects;
        }
        effects.extend(fits.iter().filter(|(_, fit)| fit.matches).map(|(dependent, _)| dependent.examine()));
        if !node.is_observed() && node.identity == *identity {
            let differing = fits.iter().filter(|(_, fit)| fit.differs).map(|(dependent, _)| dependent);
            let claims = differing.map(|node| (&node.identity.namespace, &*node.owners));
            if let Some(other) = alternative(identity, claims) {
                effects.push(Effect::ExamineLater(other.item()));
                if let Some(node) = self.nodes.get_mut(&identity.uid) {
                    node.identity = other;
                }
            }
        }
        effects
    }

    /// Calls for a look at those that are only supposed to be, and are of one of these kinds, which the server
    /// serves by now.
    pub fn known(&self, kinds: &[Kind]) -> Vec<Effect> {
        let is_known = |identity: &Identity| {
            let mut kinds = kinds.iter();
            kinds.any(|kind| kind.kind == identity.kind && kind.api_version == identity.api_version)
        };
        let is_virtual = |node: &&Node| node.presence == Presence::Virtual;
        let unseen = self.nodes.values().filter(is_virtual).filter(|node| is_known(&node.identity));
        let mut items: Vec<Item> = unseen.map(|node| node.identity.item()).collect();
        items.sort_unstable();
        items.into_iter().map(Effect::Examine).collect()
    }

    /// Notes that what an owner waited for is done and its finalizer removed. Should a cache show it with one after
    /// that, somebody has asked again.
    pub fn let_go(&mut self, uid: &Uid) {
        if let Some(node) = self.nodes.get_mut(uid) {
            (node.waiting, node.orphaning) = (false, false);
        }
    }

    /// Forgets the objects of a kind that is no longer followed. Those that others refer to become virtual.
    pub fn unfollow(&mut self, kind: &Kind) -> Vec<Effect> {
        let mut effects = vec![];
        for uid in self.shown_as(kind) {
            let Some(node) = self.nodes.get(&uid) else { continue };
            if node.dependents.is_empty() {
                self.bury(&uid, &mut effects);
                continue;
            }
            let virtual_one =
                Node { dependents: node.dependents.clone(), ..Node::virtual_one(node.identity.clone()) };
            effects.push(virtual_one.examine());
            let owners = node.owners.clone();
            self.unlink(&uid, owners.iter(), &mut effects);
            self.nodes.insert(uid, virtual_one);
        }
        effects
    }

    /// Carries the objects of a kind over to another version of it, which another cache shows from now on. What
    /// they are to each other stays as it is.
    pub fn succeed(&mut self, old: &Kind, new: &Kind) {
        for node in self.nodes.values_mut().filter(|node| node.is_shown_as(old)) {
            node.identity.api_version = new.api_version.clone();
        }
    }

    /// Calls for a look at the objects of a kind that its cache does not show: they have gone while no cache
    /// followed them. Until the server has confirmed it, they stay.
    pub fn unshown(&mut self, kind: &Kind, is_shown: impl Fn(&Identity) -> bool) -> Vec<Effect> {
        let mut effects = vec![];
        for uid in self.shown_as(kind) {
            let node = self.nodes.get_mut(&uid).filter(|node| !is_shown(&node.identity));
            let Some(node) = node else { continue };
            // Nobody will hear of its end.
            (node.deleting, node.waiting, node.orphaning) = (false, false, false);
            effects.push(node.examine());
        }
        effects
    }

    /// Whether the owner that an object in `namespace` refers to is known to be gone, in whatever version it was
    /// shown.
    pub fn has_vanished(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let node = self.nodes.get(&reference.uid).filter(|node| node.has_vanished());
        node.is_some_and(|node| {
            let known = &node.identity;
            (known.namespace.is_empty() || known.namespace == *namespace)
                && known.name == reference.name
                && known.kind == reference.kind
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
        let nodes = self.nodes.values().filter(|node| node.is_shown_as(kind));
        let mut uids: Vec<Uid> = nodes.map(|node| node.identity.uid.clone()).collect();
        uids.sort_unstable();
        uids
    }

    fn seen(&mut self, identity: Identity, meta: &ObjectMeta, effects: &mut Vec<Effect>) {
        let uid = identity.uid.clone();
        if self.nodes.get(&uid).is_some_and(|node| !node.is_observed() && node.identity != identity) {
            self.doubt_dependents(&identity, effects);
        }
        let node = self.nodes.entry(uid.clone()).or_insert_with(|| Node::virtual_one(identity.clone()));
        if !node.is_observed() {
            node.identity = identity;
            node.presence = Presence::Observed;
        }
        self.own(&uid, &meta.owner_references, effects);
        let Some(node) = self.nodes.get_mut(&uid) else { return };
        node.deleting = meta.is_deleting();
        let orphaning = node.deleting && meta.has_finalizer(ORPHAN);
        // Who wants both wants orphans first.
        let waiting = node.deleting && !orphaning && meta.has_finalizer(FOREGROUND);
        let (starts_orphaning, starts_waiting) = (orphaning && !node.orphaning, waiting && !node.waiting);
        (node.orphaning, node.waiting) = (orphaning, waiting);
        if starts_orphaning {
            effects.push(Effect::Orphan(node.identity.item()));
        }
        if starts_waiting {
            let itself = node.examine();
            effects.extend(self.dependents(&uid).map(Node::examine));
            effects.push(itself);
        }
    }

    /// What was supposed about an owner turns out to be wrong: those who said so are looked at.
    fn doubt_dependents(&self, owner: &Identity, effects: &mut Vec<Effect>) {
        for dependent in self.dependents(&owner.uid) {
            let namespace = &dependent.identity.namespace;
            if !fit(owner, &dependent.owners, namespace).differs {
                continue;
            }
            if !owner.namespace.is_empty() && owner.namespace != *namespace {
                let reference = dependent.owners.iter().find(|reference| reference.uid == owner.uid);
                effects.extend(reference.map(|reference| misplaced(&dependent.identity, reference)));
            }
            effects.push(dependent.examine());
        }
    }

    /// Gives `uid` these owners instead of those it had.
    fn own(&mut self, uid: &Uid, owners: &[OwnerReference], effects: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get(uid) else { return };
        if *node.owners == *owners {
            return;
        }
        let before = node.owners.clone();
        let after = self.shared(owners);
        let had: FxHashMap<&Uid, &OwnerReference> = before.iter().map(|owner| (&owner.uid, owner)).collect();
        let has: FxHashMap<&Uid, &OwnerReference> = after.iter().map(|owner| (&owner.uid, owner)).collect();
        let blocks = |reference: &OwnerReference| reference.block_owner_deletion == Some(true);
        let unblocked = before
            .iter()
            .filter(|owner| blocks(owner) && !has.get(&owner.uid).is_some_and(|owner| blocks(owner)));
        let waiting = unblocked.filter_map(|owner| self.nodes.get(&owner.uid)).filter(|owner| owner.waiting);
        effects.extend(waiting.map(Node::examine));
        if let Some(node) = self.nodes.get_mut(uid) {
            node.owners = after.clone();
        }
        let added = after.iter().filter(|owner| !had.contains_key(&owner.uid));
        self.link(uid, added, effects);
        let mut is_judged_anew = false;
        for owner in before.iter() {
            match has.get(&owner.uid) {
                Some(still) => is_judged_anew |= !points_the_same_way(still, owner),
                None => {
                    // It may have been the one that kept it, or the one that kept it from being judged.
                    is_judged_anew |= !after.is_empty();
                    self.part(&owner.uid, uid);
                }
            }
        }
        if is_judged_anew {
            effects.extend(self.nodes.get(uid).map(Node::examine));
        }
    }

    /// A sibling's list if it is equal, so that the pods of one set do not each keep their own.
    fn shared(&self, owners: &[OwnerReference]) -> Arc<[OwnerReference]> {
        let sibling = owners.first().and_then(|owner| self.dependents(&owner.uid).next());
        match sibling {
            Some(sibling) if *sibling.owners == *owners => sibling.owners.clone(),
            _ => owners.into(),
        }
    }

    /// Makes `uid` a dependent of these owners, and doubts it if it does not fit what is known about one of them.
    fn link<'a>(
        &mut self,
        uid: &Uid,
        owners: impl Iterator<Item = &'a OwnerReference>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(node) = self.nodes.get(uid) else { return };
        let (dependent, itself) = (node.identity.clone(), node.examine());
        let (mut is_doubtful, mut is_awaited) = (false, false);
        for reference in owners {
            let Some(owner) = self.nodes.get_mut(&reference.uid) else {
                let mut owner = Node::virtual_one(Identity::claimed(reference, &dependent.namespace));
                owner.dependents.insert(uid.clone());
                effects.push(owner.examine());
                self.nodes.insert(reference.uid.clone(), owner);
                continue;
            };
            owner.dependents.insert(uid.clone());
            is_awaited |= owner.waiting;
            if is_doubtful {
                continue;
            }
            let doubt = doubt(owner, reference, &dependent.namespace);
            if doubt == Some(Doubt::OtherNamespace) && owner.is_observed() {
                effects.push(misplaced(&dependent, reference));
            }
            is_doubtful = doubt.is_some();
        }
        if is_doubtful || is_awaited {
            effects.push(itself);
        }
    }

    /// Takes in that an object is gone. It stays as vanished while others refer to it.
    fn bury(&mut self, uid: &Uid, effects: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        node.dependents.remove(uid);
        let owners = std::mem::take(&mut node.owners);
        (node.deleting, node.waiting, node.orphaning) = (false, false, false);
        node.presence = Presence::Vanished;
        self.unlink(uid, owners.iter(), effects);
        effects.extend(self.dependents(uid).map(Node::examine));
        self.forget_unneeded(uid);
    }

    /// Takes `uid` out of the dependents of `owner`.
    fn part(&mut self, owner: &Uid, uid: &Uid) {
        if let Some(node) = self.nodes.get_mut(owner) {
            node.dependents.remove(uid);
            self.forget_unneeded(owner);
        }
    }

    /// Forgets an object that no cache shows, once nobody refers to it any more.
    fn forget_unneeded(&mut self, uid: &Uid) {
        if self.nodes.get(uid).is_none_or(|node| node.is_observed() || !node.dependents.is_empty()) {
            return;
        }
        self.nodes.remove(uid);
        if let Some(room) = room::to_keep(self.nodes.len(), self.nodes.capacity()) {
            self.nodes.shrink_to(room);
        }
    }

    /// Takes `uid` out of its owners' dependents. An owner that waited for it as the last one may go.
    fn unlink<'a>(
        &mut self,
        uid: &Uid,
        owners: impl Iterator<Item = &'a OwnerReference>,
        effects: &mut Vec<Effect>,
    ) {
        for reference in owners {
            self.part(&reference.uid, uid);
            let waiting = self.nodes.get(&reference.uid).filter(|owner| owner.waiting);
            let Some(owner) = waiting else { continue };
            if self.blocking(&reference.uid).next().is_none() {
                effects.push(owner.examine());
            }
        }
    }
}

fn points_the_same_way(one: &OwnerReference, other: &OwnerReference) -> bool {
    (&one.name, &one.kind, &one.api_version) == (&other.name, &other.kind, &other.api_version)
}

/// Why a reference may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Vanished,
    /// The owner is in another namespace.
    OtherNamespace,
    /// The owner has another kind, version or name.
    OtherCoordinates,
    /// The owner was first named by a cluster-scoped object, and need not be one itself.
    ScopeUnknown,
}

fn doubt(owner: &Node, reference: &OwnerReference, namespace: &SmolStr) -> Option<Doubt> {
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

fn misplaced(dependent: &Identity, reference: &OwnerReference) -> Effect {
    Effect::Misplaced { dependent: dependent.clone(), reference: reference.clone() }
}
