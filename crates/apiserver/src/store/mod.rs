//! The versioned memory store: one global counter of versions, a shelf of objects per resource, and a bounded
//! history from which watches are fed and older consistent lists are rebuilt.
//!
//! Watchers hold a cursor into the history, not a buffer: a slow one needs no memory, and one that falls behind the history gets
//! an error. Everything happens under one short lock; nothing is awaited in it, and objects are parsed or written in it only when all of
//! them are replaced, or when a definition changes what selectors find.

mod durable;
mod entry;
mod shelf;
mod snapshot;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flyball_latest as latest;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;
use smol_str::SmolStr;

pub use durable::{Durable, OpenError, Reserved};
pub use entry::{Entry, Facets, Happened, Key, frame};
pub use shelf::{Event, Limits};
use shelf::{Shelf, Wakeup};
pub use snapshot::{Snapshot, SnapshotError};

/// Names a shelf: group and plural of the stored resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShelfId {
    pub group: SmolStr,
    pub plural: SmolStr,
}

impl ShelfId {
    pub fn new(group: impl Into<SmolStr>, plural: impl Into<SmolStr>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

/// Why a write was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The object exists although it was expected not to.
    Exists,
    /// The object does not have the expected version, or does not exist.
    Changed,
}

/// The requested version has been compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest version that is still available.
    pub oldest: u64,
}

#[derive(Debug)]
pub enum Write {
    /// Store this state; the store fills in `metadata.resourceVersion`.
    Put(Value, Facets),
    /// Remove the object; this is its last state, which watchers are given.
    Remove(Value),
}

/// Objects of one shelf at one version.
#[derive(Debug)]
pub struct Page {
    /// The objects, in order of their keys.
    pub entries: Vec<Arc<Entry>>,
    /// The version of the whole list.
    pub version: u64,
    /// How many objects follow after the last one.
    pub remaining: usize,
}

#[derive(Debug, Default, Clone)]
pub struct Range<'a> {
    pub namespace: Option<&'a str>,
    /// Only keys after this one.
    pub after: Option<Key>,
    /// At this version instead of now.
    pub at: Option<u64>,
    /// The limit on objects, before selectors are applied.
    pub limit: Option<usize>,
}

struct Inner {
    version: u64,
    shelves: FxHashMap<ShelfId, Shelf>,
    limits: Limits,
    /// The versions at which shelves were dropped, with their history.
    dropped: FxHashMap<ShelfId, u64>,
}

/// The store. Cheap to share behind an `Arc`.
pub struct Store {
    inner: Mutex<Inner>,
    durable: Option<Durable>,
}

impl Store {
    /// An empty store in memory.
    pub fn in_memory(limits: Limits) -> Self {
        let inner =
            Inner { version: 1, shelves: FxHashMap::default(), limits, dropped: FxHashMap::default() };
        Self { inner: Mutex::new(inner), durable: None }
    }

    /// A store that keeps its objects in a database in `directory`, and begins with its contents.
    /// `facets` extracts the parts that selectors match.
    pub fn open(
        directory: &Path,
        limits: Limits,
        facets: impl Fn(&ShelfId, &Value) -> Facets,
    ) -> Result<Self, OpenError> {
        let (durable, saved) = Durable::open(directory)?;
        let mut store = Self::in_memory(limits);
        store.inner.get_mut().load(&saved, saved.version, facets);
        store.durable = Some(durable);
        Ok(store)
    }

    /// Replaces everything by what a snapshot holds, under a version that no client has seen: lists and watches from earlier ones
    /// get 410. Returns the version, for [`durable()`](Self::durable). All followers end.
    pub fn replace(&self, snapshot: &Snapshot, facets: impl Fn(&ShelfId, &Value) -> Facets) -> u64 {
        let mut inner = self.inner.lock();
        let version = snapshot.version.max(inner.version) + durable::VERSION_GAP;
        inner.shelves.clear();
        inner.dropped.clear();
        inner.load(snapshot, version, facets);
        if let Some(durable) = &self.durable {
            let all =
                inner.shelves.iter().flat_map(|(id, shelf)| shelf.entries().map(move |entry| (id, &**entry)));
            durable.replace(version, all);
        }
        version
    }

    /// All objects at one version.
    pub fn contents(&self) -> (u64, Vec<(ShelfId, Arc<Entry>)>) {
        let inner = self.inner.lock();
        let of = |(id, shelf): (&ShelfId, &Shelf)| -> Vec<(ShelfId, Arc<Entry>)> {
            shelf.entries().map(|entry| (id.clone(), Arc::clone(entry))).collect()
        };
        (inner.version, inner.shelves.iter().flat_map(of).collect())
    }

    /// Closes the database, if there is one, after what is to be written to it. Later writes are refused.
    pub async fn close(&self) {
        if let Some(durable) = &self.durable {
            durable.close().await;
        }
    }

    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.inner.lock().version
    }

    pub fn get(&self, shelf: &ShelfId, key: &Key) -> Option<Arc<Entry>> {
        self.inner.lock().shelves.get(shelf)?.get(key)
    }

    /// Makes one write if the object is in the state `expected` (its version, or `None` for absent), and returns
    /// the new state. A later `durable()` waits until it is on disk.
    pub fn commit(
        &self,
        shelf: &ShelfId,
        key: &Key,
        expected: Option<u64>,
        write: Write,
    ) -> Result<Arc<Entry>, Refused> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let current = inner.shelves.get(shelf).and_then(|shelf| shelf.get(key));
        match (expected, current.as_ref().map(|entry| entry.version)) {
            (None, Some(_)) => return Err(Refused::Exists),
            (Some(wanted), found) if found != Some(wanted) => return Err(Refused::Changed),
            _ => {}
        }
        inner.version += 1;
        let version = inner.version;
        let stamp =
            |object: &mut Value| object["metadata"]["resourceVersion"] = Value::from(version.to_string());
        let (happened, entry) = match write {
            Write::Put(mut object, facets) => {
                stamp(&mut object);
                let happened = if current.is_some() { Happened::Modified } else { Happened::Added };
                (happened, Entry::new(version, key.clone(), facets, happened, &object))
            }
            Write::Remove(mut object) => {
                stamp(&mut object);
                let facets = current.as_ref().map(|entry| entry.facets.clone()).unwrap_or_default();
                (Happened::Deleted, Entry::new(version, key.clone(), facets, Happened::Deleted, &object))
            }
        };
        let entry = Arc::new(entry);
        if let Some(durable) = &self.durable {
            durable.record(version, shelf, key, (happened != Happened::Deleted).then(|| entry.json()));
        }
        let event = Event { version, happened, entry: Arc::clone(&entry), previous: current };
        inner.shelf(shelf).push(event);
        Ok(entry)
    }

    /// Completes when the write of `version` is on disk; at once for a store in memory.
    pub async fn durable(&self, version: u64) -> Result<(), OpenError> {
        match &self.durable {
            Some(durable) => durable.reached(version).await,
            None => Ok(()),
        }
    }

    /// The objects in a range, now or as they were at an older version.
    pub fn list(&self, shelf: &ShelfId, range: &Range<'_>) -> Result<Page, Compacted> {
        let mut inner = self.inner.lock();
        let now = inner.version;
        let shelf = inner.shelf(shelf);
        let version = range.at.unwrap_or(now);
        let oldest = shelf.history().oldest();
        if version < oldest {
            return Err(Compacted { oldest });
        }
        let undone = shelf.undo_since(version);
        let (entries, remaining) = shelf.range(range, &undone);
        Ok(Page { entries, version, remaining })
    }

    /// All objects of a shelf, for the server's own use.
    pub fn all(&self, shelf: &ShelfId, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        let range = Range { namespace, ..Range::default() };
        self.list(shelf, &range).map(|page| page.entries).unwrap_or_default()
    }

    /// How many objects a shelf holds.
    pub fn len(&self, shelf: &ShelfId) -> usize {
        self.inner.lock().shelves.get(shelf).map_or(0, Shelf::len)
    }

    /// Begins to follow a shelf from just after `version`.
    pub fn follow(&self, shelf: &ShelfId, version: u64) -> Result<Follower, Compacted> {
        let mut inner = self.inner.lock();
        let found = inner.shelf(shelf);
        let oldest = found.history().oldest();
        if version < oldest {
            return Err(Compacted { oldest });
        }
        Ok(Follower { shelf: shelf.clone(), cursor: version, changed: found.subscribe() })
    }

    /// Up to `max` events after the follower's cursor, which is advanced: to the version of the last event, or if there are no more
    /// events, to the store's version.
    pub fn next(&self, follower: &mut Follower, max: usize) -> Result<Vec<Event>, Compacted> {
        let mut inner = self.inner.lock();
        let now = inner.version;
        let dropped = follower.changed.borrow().clone();
        let history = dropped.as_deref().unwrap_or_else(|| inner.shelf(&follower.shelf).history());
        let oldest = history.oldest();
        if follower.cursor < oldest {
            return Err(Compacted { oldest });
        }
        let events = history.since(follower.cursor, max);
        let reached = if events.len() < max { now } else { events.last().map_or(now, |e| e.version) };
        // A follower from a future version gets nothing until then.
        follower.cursor = follower.cursor.max(reached);
        follower.changed.mark_unchanged();
        Ok(events)
    }

    /// Drops the history up to and including `version`: watches and lists from older versions get 410.
    pub fn compact(&self, version: u64) {
        let mut inner = self.inner.lock();
        let version = version.min(inner.version);
        for shelf in inner.shelves.values_mut() {
            shelf.compact(version);
        }
        inner.limits.compacted = inner.limits.compacted.max(version);
    }

    /// Returns to the state at `version`, which must still be in its history, and to that version: later writes get versions
    /// that were used before. All followers end, and there is no history, as after a restart.
    pub fn restore(&self, version: u64) -> Result<(), Compacted> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let histories = inner.shelves.values().map(|shelf| shelf.history().oldest());
        let oldest = histories.chain(inner.dropped.values().copied()).max().unwrap_or(0);
        if version < oldest || version > inner.version {
            return Err(Compacted { oldest });
        }
        inner.version = version;
        inner.limits.compacted = version;
        for (id, shelf) in &mut inner.shelves {
            for (key, state) in shelf.restore(version) {
                if let Some(durable) = &self.durable {
                    durable.record(version, id, &key, state.map(|entry| entry.json()));
                }
            }
        }
        Ok(())
    }

    /// Drops a shelf with all its objects (a custom resource whose definition is gone). Watches on it end after its last
    /// event; a later shelf of that name has its own history.
    pub fn drop_shelf(&self, shelf: &ShelfId) {
        let mut inner = self.inner.lock();
        let version = inner.version;
        let Some(found) = inner.shelves.remove(shelf) else { return };
        inner.dropped.insert(shelf.clone(), version);
        if let Some(durable) = &self.durable {
            for key in found.keys() {
                durable.record(version, shelf, key, None);
            }
        }
        found.drop_with_history();
    }

    /// Extracts the parts that selectors match anew, for all objects of a shelf.
    pub fn index_again(&self, shelf: &ShelfId, facets: impl Fn(&Value) -> Facets) {
        if let Some(shelf) = self.inner.lock().shelves.get_mut(shelf) {
            shelf.index_again(facets);
        }
    }

    /// Number of objects per shelf, for metrics and quota.
    pub fn counts(&self) -> BTreeMap<ShelfId, usize> {
        self.inner.lock().shelves.iter().map(|(id, shelf)| (id.clone(), shelf.len())).collect()
    }
}

impl Inner {
    /// Takes objects into empty shelves, at `now`. There is no history before that.
    fn load(&mut self, snapshot: &Snapshot, now: u64, facets: impl Fn(&ShelfId, &Value) -> Facets) {
        self.version = now;
        self.limits.compacted = now;
        for (id, key, object) in &snapshot.objects {
            let version = object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok());
            let entry =
                Entry::new(version.unwrap_or(1), key.clone(), facets(id, object), Happened::Added, object);
            self.shelf(id).load(entry);
        }
    }

    fn shelf(&mut self, id: &ShelfId) -> &mut Shelf {
        if !self.shelves.contains_key(id) {
            let dropped = self.dropped.get(id).copied().unwrap_or(0);
            let shelf = Shelf::new(self.limits, dropped.max(self.limits.compacted));
            self.shelves.insert(id.clone(), shelf);
        }
        // Present: inserted above when it was not.
        self.shelves.entry(id.clone()).or_insert_with(|| Shelf::new(Limits::default(), 0))
    }
}

/// A position in a shelf's history.
#[derive(Debug)]
pub struct Follower {
    shelf: ShelfId,
    cursor: u64,
    changed: latest::Receiver<Wakeup>,
}

impl Follower {
    /// The version up to which all events were returned.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Waits for a write after the last `next`; `false` when the shelf has been dropped or restored. The last write before
    /// a drop is reported first.
    pub async fn changed(&mut self) -> bool {
        self.changed.changed().await.is_ok()
    }
}

#[cfg(test)]
mod tests;
