//! The indexed cache of one resource. Only the resource's informer writes to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flyball_api::{Key, Object, ResourceVersion, Uid};
use parking_lot::RwLock;

use crate::index::Index;
use crate::table::{Postings, Table};

/// The identity of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub uid: Uid,
    pub version: ResourceVersion,
    pub deleting: bool,
}

impl Header {
    pub(crate) fn of<T: Object>(object: &T) -> Self {
        let meta = object.meta();
        Self { uid: meta.uid.clone(), version: meta.resource_version, deleting: meta.is_deleting() }
    }
}

/// All objects of a resource, by name and by index. Cheap to clone: clones share the contents.
///
/// Look-ups take constant time plus the size of the result; the lock is held only inside a call.
///
/// An object whose latest version cannot be decoded stays in the store in its last decodable version, if there is one:
/// otherwise controllers would create a replacement for something that exists. [`undecodable`](Self::undecodable) lists it,
/// and [`is_current`](Self::is_current) is false. Writes based on it carry the old resourceVersion, so the server rejects
/// them.
pub struct Store<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    contents: RwLock<Contents<T>>,
    /// Set after the contents have reached it, so that a reader that sees the version also sees the objects.
    version: AtomicU64,
}

struct Contents<T> {
    objects: Table<T>,
    namespaces: Postings<T>,
    indexes: Vec<(Index<T>, Postings<T>)>,
    undecodable: BTreeMap<Key, Header>,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// A store without an informer, for tests.
impl<T: Object> FromIterator<T> for Store<T> {
    fn from_iter<I: IntoIterator<Item = T>>(objects: I) -> Self {
        let store = Self::new();
        for object in objects {
            store.put(&Arc::new(object));
        }
        store
    }
}

impl<T: Object> Store<T> {
    pub(crate) fn new() -> Self {
        let contents = Contents {
            objects: Table::default(),
            namespaces: Postings::default(),
            indexes: Vec::new(),
            undecodable: BTreeMap::new(),
        };
        Self { shared: Arc::new(Shared { contents: RwLock::new(contents), version: AtomicU64::new(0) }) }
    }

    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.shared.contents.read().objects.get(&key.namespace, &key.name).cloned()
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.shared.contents.read().objects.iter().cloned().collect()
    }

    /// The objects of one namespace, in no particular order.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.shared.contents.read().namespaces.get(namespace)
    }

    pub fn count_in_namespace(&self, namespace: &str) -> usize {
        self.shared.contents.read().namespaces.count(namespace)
    }

    /// The objects that have `key` in `index`, in no particular order.
    ///
    /// An index that is not installed yet is installed here.
    pub fn by(&self, index: &Index<T>, key: &str) -> Vec<Arc<T>> {
        self.with_index(index, |postings| postings.get(key))
    }

    pub fn count_by(&self, index: &Index<T>, key: &str) -> usize {
        self.with_index(index, |postings| postings.count(key))
    }

    pub fn len(&self) -> usize {
        self.shared.contents.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version up to which the store has seen every change.
    pub fn version_reached(&self) -> ResourceVersion {
        ResourceVersion(self.shared.version.load(Ordering::Acquire))
    }

    /// The objects whose latest version could not be decoded, sorted.
    pub fn undecodable(&self) -> Vec<Key> {
        self.shared.contents.read().undecodable.keys().cloned().collect()
    }

    /// Whether [`get`](Self::get) returns the latest known version of `key`.
    pub fn is_current(&self, key: &Key) -> bool {
        !self.shared.contents.read().undecodable.contains_key(key)
    }

    /// Identity and version of the latest known version of `key`, decodable or not.
    pub fn header(&self, key: &Key) -> Option<Header> {
        let contents = self.shared.contents.read();
        let undecodable = contents.undecodable.get(key).cloned();
        undecodable
            .or_else(|| contents.objects.get(&key.namespace, &key.name).map(|object| Header::of(&**object)))
    }

    /// Installs an index, unless one of that name exists, and fills it.
    pub(crate) fn install(&self, index: &Index<T>) {
        let mut contents = self.shared.contents.write();
        if contents.indexes.iter().any(|(installed, _)| installed.name == index.name) {
            return;
        }
        let mut postings = Postings::default();
        for object in contents.objects.iter() {
            (index.keys)(object, &mut |key| postings.insert(key, object));
        }
        contents.indexes.push((*index, postings));
    }

    fn with_index<R>(&self, index: &Index<T>, read: impl Fn(&Postings<T>) -> R) -> R {
        loop {
            let contents = self.shared.contents.read();
            if let Some((_, postings)) = contents.indexes.iter().find(|(held, _)| held.name == index.name) {
                return read(postings);
            }
            drop(contents);
            self.install(index);
        }
    }

    /// Inserts a decoded object, and returns the one that it replaces.
    pub(crate) fn put(&self, object: &Arc<T>) -> Option<Arc<T>> {
        let mut contents = self.shared.contents.write();
        if !contents.undecodable.is_empty() {
            contents.undecodable.remove(&object.key());
        }
        let old = contents.objects.insert(object.clone());
        debug_assert!(!old.as_ref().is_some_and(|old| Arc::ptr_eq(old, object)), "an object is put in once");
        contents.reindex(old.as_ref(), Some(object));
        old
    }

    /// Removes `key`, and returns its object.
    pub(crate) fn take(&self, key: &Key) -> Option<Arc<T>> {
        let mut contents = self.shared.contents.write();
        contents.undecodable.remove(key);
        let old = contents.objects.remove(&key.namespace, &key.name)?;
        contents.reindex(Some(&old), None);
        Some(old)
    }

    /// Records that the latest version of `key` is `header` and cannot be decoded.
    pub(crate) fn mark_undecodable(&self, key: Key, header: Header) {
        self.shared.contents.write().undecodable.insert(key, header);
    }

    pub(crate) fn set_version(&self, version: ResourceVersion) {
        self.shared.version.store(version.0, Ordering::Release);
    }

    /// The object with the highest version, of those that are current.
    pub(crate) fn newest(&self) -> Option<Arc<T>> {
        let contents = self.shared.contents.read();
        let current =
            contents.objects.iter().filter(|object| !contents.undecodable.contains_key(&object.key()));
        let newest = match contents.undecodable.is_empty() {
            true => contents.objects.iter().max_by_key(|object| object.meta().resource_version),
            false => current.max_by_key(|object| object.meta().resource_version),
        };
        newest.cloned()
    }

    /// The held objects that are not in `seen`.
    pub(crate) fn missing_from(&self, seen: &Table<T>) -> Vec<Arc<T>> {
        let contents = self.shared.contents.read();
        contents.objects.iter().filter(|object| !seen.contains(object)).cloned().collect()
    }

    /// Heap memory besides the objects themselves.
    pub fn overhead_bytes(&self) -> usize {
        let contents = self.shared.contents.read();
        let indexes: usize = contents.indexes.iter().map(|(_, postings)| postings.bytes()).sum();
        contents.objects.bytes() + contents.namespaces.bytes() + indexes
    }
}

impl<T: Object> Contents<T> {
    /// Updates all indexes from `old` to `new`. New keys are added before old ones are removed, so that an unchanged key costs
    /// a pointer swap and no allocation: status updates, the most frequent writes, change no key. Where the new version
    /// has replaced the old one, the removal finds nothing.
    fn reindex(&mut self, old: Option<&Arc<T>>, new: Option<&Arc<T>>) {
        if let Some(object) = new.filter(|object| !object.meta().namespace.is_empty()) {
            self.namespaces.insert(&object.meta().namespace, object);
        }
        if let Some(object) = old {
            self.namespaces.remove(&object.meta().namespace, object);
        }
        for (index, postings) in &mut self.indexes {
            if let Some(object) = new {
                (index.keys)(object, &mut |key| postings.insert(key, object));
            }
            if let Some(object) = old {
                (index.keys)(object, &mut |key| postings.remove(key, object));
            }
        }
    }
}
