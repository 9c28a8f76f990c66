//! The objects of one resource and its recent events.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use flyball_latest as latest;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Range;
use super::entry::{Entry, Facets, Happened, Key};

/// Bounds of a shelf's history.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The limit on events.
    pub events: usize,
    /// The limit on their bytes.
    pub bytes: usize,
    /// Everything up to this version has been compacted.
    pub compacted: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events: 20_000, bytes: 64 << 20, compacted: 0 }
    }
}

#[derive(Debug, Clone)]
pub struct Event {
    pub version: u64,
    pub happened: Happened,
    /// The new state; for a deletion the last one, under the deletion's version.
    pub entry: Arc<Entry>,
    pub previous: Option<Arc<Entry>>,
}

/// The recent events of a shelf, in order of their versions.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Event>,
    bytes: usize,
    oldest: u64,
}

impl History {
    /// The oldest version from which a watch or an old list is still possible.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Up to `max` events after `version`.
    pub(super) fn since(&self, version: u64, max: usize) -> Vec<Event> {
        let start = self.events.partition_point(|event| event.version <= version);
        self.events.iter().skip(start).take(max).cloned().collect()
    }

    fn push(&mut self, event: Event, limits: Limits) {
        self.bytes += event.entry.size();
        self.events.push_back(event);
        while self.events.len() > limits.events || self.bytes > limits.bytes {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.entry.size();
            self.oldest = event.version;
        }
    }

    fn compact(&mut self, version: u64) {
        while self.events.front().is_some_and(|event| event.version <= version) {
            self.forget_first();
        }
        self.oldest = self.oldest.max(version);
    }

    /// The states to restore (`None`: objects to remove) to get the shelf at `version`.
    fn undo_since(&self, version: u64) -> FxHashMap<Key, Option<Arc<Entry>>> {
        let start = self.events.partition_point(|event| event.version <= version);
        let mut undo = FxHashMap::default();
        for event in self.events.iter().skip(start) {
            undo.entry(event.entry.key.clone()).or_insert_with(|| event.previous.clone());
        }
        undo
    }
}

/// The signal that wakes followers: `None` for a change, the whole history when the shelf is dropped.
pub(super) type Wakeup = Option<Arc<History>>;

pub(super) struct Shelf {
    objects: BTreeMap<Key, Arc<Entry>>,
    history: History,
    limits: Limits,
    changed: latest::Sender<Wakeup>,
}

impl Shelf {
    /// An empty shelf without history up to `oldest`.
    pub(super) fn new(limits: Limits, oldest: u64) -> Self {
        let history = History { events: VecDeque::new(), bytes: 0, oldest };
        Self { objects: BTreeMap::new(), history, limits, changed: latest::Sender::new(None) }
    }

    pub(super) fn load(&mut self, entry: Entry) {
        self.objects.insert(entry.key.clone(), Arc::new(entry));
    }

    pub(super) fn index_again(&mut self, facets: impl Fn(&Value) -> Facets) {
        for entry in self.objects.values_mut() {
            *entry = Arc::new(entry.with_facets(facets(&entry.value())));
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.objects.values()
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn subscribe(&self) -> latest::Receiver<Wakeup> {
        self.changed.subscribe()
    }

    pub(super) fn push(&mut self, event: Event) {
        match event.happened {
            Happened::Deleted => self.objects.remove(&event.entry.key),
            _ => self.objects.insert(event.entry.key.clone(), Arc::clone(&event.entry)),
        };
        self.history.push(event, self.limits);
        self.changed.send_replace(None);
    }

    pub(super) fn compact(&mut self, version: u64) {
        self.history.compact(version);
        // Wakes followers, so that those that are too far behind get their error.
        self.changed.send_replace(None);
    }

    /// Ends the shelf. Its followers read the history to its end, then their watches end.
    pub(super) fn drop_with_history(self) {
        self.changed.send_replace(Some(Arc::new(self.history)));
    }

    /// Returns to `version`, and returns the changes. There is no earlier history, and there are no followers.
    pub(super) fn restore(&mut self, version: u64) -> FxHashMap<Key, Option<Arc<Entry>>> {
        let undone = self.history.undo_since(version);
        for (key, state) in &undone {
            match state {
                Some(entry) => self.objects.insert(key.clone(), Arc::clone(entry)),
                None => self.objects.remove(key),
            };
        }
        self.history = History { events: VecDeque::new(), bytes: 0, oldest: version };
        self.limits.compacted = version;
        self.changed = latest::Sender::new(None);
        undone
    }

    pub(super) fn undo_since(&self, version: u64) -> FxHashMap<Key, Option<Arc<Entry>>> {
        self.history.undo_since(version)
    }

    pub(super) fn range(
        &self,
        range: &Range<'_>,
        undo: &FxHashMap<Key, Option<Arc<Entry>>>,
    ) -> (Vec<Arc<Entry>>, usize) {
        let limit = range.limit.unwrap_or(usize::MAX);
        let start = match (&range.after, range.namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(ns)) => Bound::Included(Key::new(ns, "")),
            (None, None) => Bound::Unbounded,
        };
        let inside = |key: &Key| range.namespace.is_none_or(|ns| key.namespace == ns);
        let present = self.objects.range((start.clone(), Bound::Unbounded));
        if undo.is_empty() {
            let mut rest = present.take_while(|(key, _)| inside(key));
            let entries: Vec<_> = rest.by_ref().take(limit).map(|(_, entry)| Arc::clone(entry)).collect();
            let remaining = if range.limit.is_some() { rest.count() } else { 0 };
            return (entries, remaining);
        }
        let after = |key: &Key| match &start {
            Bound::Excluded(first) => key > first,
            Bound::Included(first) => key >= first,
            Bound::Unbounded => true,
        };
        let mut then: BTreeMap<Key, Arc<Entry>> = present
            .take_while(|(key, _)| inside(key))
            .filter(|(key, _)| !undo.contains_key(*key))
            .map(|(key, entry)| (key.clone(), Arc::clone(entry)))
            .collect();
        for (key, state) in undo {
            if let Some(entry) = state
                && inside(key)
                && after(key)
            {
                then.insert(key.clone(), Arc::clone(entry));
            }
        }
        let remaining = then.len().saturating_sub(limit);
        (then.into_values().take(limit).collect(), remaining)
    }
}
