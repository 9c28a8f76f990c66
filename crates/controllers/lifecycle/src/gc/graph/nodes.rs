//! The nodes by uid. A cluster may have hundreds of thousands of them, and a hash table is up to half empty: each slot is only a
//! pointer, and the key is in the node.

use std::hash::BuildHasher;

use flyball_api::{Uid, room};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;

use super::node::Node;

/// At most one node for each uid.
#[derive(Debug, Default)]
pub(super) struct Nodes(HashTable<Box<Node>>);

fn hash(uid: &Uid) -> u64 {
    FxBuildHasher.hash_one(uid)
}

fn uid_of(node: &Node) -> &Uid {
    &node.identity.uid
}

fn hash_of(node: &impl AsRef<Node>) -> u64 {
    hash(uid_of(node.as_ref()))
}

impl Nodes {
    pub(super) fn get(&self, uid: &Uid) -> Option<&Node> {
        self.0.find(hash(uid), |node| uid_of(node) == uid).map(|node| &**node)
    }

    pub(super) fn get_mut(&mut self, uid: &Uid) -> Option<&mut Node> {
        self.0.find_mut(hash(uid), |node| uid_of(node) == uid).map(|node| &mut **node)
    }

    /// The node with the uid of `new`; that is inserted if there is none.
    pub(super) fn get_or_insert(&mut self, new: impl FnOnce() -> Node, uid: &Uid) -> &mut Node {
        match self.0.entry(hash(uid), |node| uid_of(node) == uid, hash_of) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => free.insert(Box::new(new())).into_mut(),
        }
    }

    /// Inserts a node, or replaces the one with its uid.
    pub(super) fn insert(&mut self, node: Node) {
        let uid = uid_of(&node).clone();
        match self.0.entry(hash(&uid), |held| *uid_of(held) == uid, hash_of) {
            Entry::Occupied(mut held) => **held.get_mut() = node,
            Entry::Vacant(free) => drop(free.insert(Box::new(node))),
        }
    }

    /// Shrinks the table when most of it is empty.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Ok(found) = self.0.find_entry(hash(uid), |node| uid_of(node) == uid) {
            found.remove();
        }
        if let Some(room) = room::to_keep(self.0.len(), self.0.capacity()) {
            self.0.shrink_to(room, hash_of);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().map(|node| &**node)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.0.iter_mut().map(|node| &mut **node)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What the table and the nodes take, without what the nodes point to.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.allocation_size() + self.0.len() * size_of::<Node>()
    }
}
