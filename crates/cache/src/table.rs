//! Sets of objects by name. The name is stored in the object only, so that an entry costs a pointer and a byte.

use std::hash::BuildHasher;
use std::sync::Arc;

use flyball_api::{Object, room};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smol_str::SmolStr;

/// Objects, at most one for each namespace and name. The iteration order is deterministic.
pub(crate) struct Table<T> {
    entries: HashTable<Arc<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: HashTable::new() }
    }
}

fn hash(namespace: &str, name: &str) -> u64 {
    FxBuildHasher.hash_one((namespace, name))
}

fn hash_of<T: Object>(object: &Arc<T>) -> u64 {
    hash(&object.meta().namespace, &object.meta().name)
}

fn is_named<T: Object>(object: &Arc<T>, namespace: &str, name: &str) -> bool {
    object.meta().name == name && object.meta().namespace == namespace
}

impl<T: Object> Table<T> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.entries.find(hash(namespace, name), |object| is_named(object, namespace, name))
    }

    pub(crate) fn contains(&self, object: &T) -> bool {
        self.get(&object.meta().namespace, &object.meta().name).is_some()
    }

    /// Inserts an object, and returns the one that it replaces.
    pub(crate) fn insert(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let meta = object.meta();
        let same = |other: &Arc<T>| is_named(other, &meta.namespace, &meta.name);
        match self.entries.entry(hash_of(&object), same, hash_of) {
            Entry::Occupied(mut held) => Some(std::mem::replace(held.get_mut(), object)),
            Entry::Vacant(free) => {
                free.insert(object);
                None
            }
        }
    }

    /// Shrinks the table when most of it is empty.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.take(hash(namespace, name), |object| is_named(object, namespace, name))
    }

    /// Removes exactly this version of an object.
    fn remove_version(&mut self, version: &Arc<T>) {
        self.take(hash_of(version), |object| Arc::ptr_eq(object, version));
    }

    fn take(&mut self, hash: u64, is_it: impl FnMut(&Arc<T>) -> bool) -> Option<Arc<T>> {
        let (object, _) = self.entries.find_entry(hash, is_it).ok()?.remove();
        if let Some(room) = room::to_keep(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(room, hash_of);
        }
        Some(object)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<T>> {
        self.entries.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Heap memory without the objects.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.allocation_size()
    }
}

/// The objects under one index key. Most keys of most indexes have one object: that needs no table.
enum Posting<T> {
    One(Arc<T>),
    Many(Table<T>),
}

/// Objects by index key. Insertion and removal take constant time, however many objects share a key.
pub(crate) struct Postings<T> {
    keys: FxHashMap<SmolStr, Posting<T>>,
}

impl<T> Default for Postings<T> {
    fn default() -> Self {
        Self { keys: FxHashMap::default() }
    }
}

impl<T: Object> Postings<T> {
    /// Inserts `object` under `key`, replacing an older version of it.
    pub(crate) fn insert(&mut self, key: &str, object: &Arc<T>) {
        let Some(posting) = self.keys.get_mut(key) else {
            self.keys.insert(key.into(), Posting::One(object.clone()));
            return;
        };
        match posting {
            Posting::Many(table) => {
                table.insert(object.clone());
            }
            Posting::One(held) if is_named(held, &object.meta().namespace, &object.meta().name) => {
                *held = object.clone();
            }
            Posting::One(held) => {
                let mut table = Table::default();
                table.insert(held.clone());
                table.insert(object.clone());
                *posting = Posting::Many(table);
            }
        }
    }

    /// Removes exactly this version of an object from `key`.
    pub(crate) fn remove(&mut self, key: &str, object: &Arc<T>) {
        let empty = match self.keys.get_mut(key) {
            None => return,
            Some(Posting::One(held)) => Arc::ptr_eq(held, object),
            Some(Posting::Many(table)) => {
                table.remove_version(object);
                table.len() == 0
            }
        };
        if empty {
            self.keys.remove(key);
            if let Some(room) = room::to_keep(self.keys.len(), self.keys.capacity()) {
                self.keys.shrink_to(room);
            }
        }
    }

    pub(crate) fn get(&self, key: &str) -> Vec<Arc<T>> {
        match self.keys.get(key) {
            None => Vec::new(),
            Some(Posting::One(object)) => vec![object.clone()],
            Some(Posting::Many(table)) => table.iter().cloned().collect(),
        }
    }

    pub(crate) fn count(&self, key: &str) -> usize {
        match self.keys.get(key) {
            None => 0,
            Some(Posting::One(_)) => 1,
            Some(Posting::Many(table)) => table.len(),
        }
    }

    /// Heap memory without the objects and without keys too long to be stored inline.
    pub(crate) fn bytes(&self) -> usize {
        let tables = self.keys.values().map(|posting| match posting {
            Posting::One(_) => 0,
            Posting::Many(table) => table.bytes(),
        });
        self.keys.capacity() * size_of::<(SmolStr, Posting<T>)>() + tables.sum::<usize>()
    }
}
