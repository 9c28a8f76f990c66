//! The writing side of a store: what a list or an event means for what is held, and who is told.
//! Plain synchronous code; where lists and events come from is the reflector's business.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::{Key, Object, ResourceType, ResourceVersion};
use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::change::{Change, Origin};
use crate::decode::{Decoded, decode};
use crate::fanout::{Delivery, Fanout};
use crate::metrics::Counters;
use crate::milestones::Milestones;
use crate::source::{Event, EventKind};
use crate::store::{Header, Store};
use crate::table::Table;

/// One resource as the informer holds it.
pub(crate) struct Mirror<T> {
    pub(crate) resource: ResourceType,
    pub(crate) store: Store<T>,
    pub(crate) fanout: Arc<Fanout<T>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) milestones: Milestones,
    /// Becomes true with the first complete list, and stays so.
    pub(crate) synced: watch::Sender<bool>,
    /// Rung by whoever misses something that the server must have sent.
    pub(crate) doubts: Notify,
}

/// A list under way. Objects are taken over as they come, so that a relist never holds two copies of everything;
/// what the list does not name is removed at its end. One that breaks off leaves nothing wrong behind: what it
/// brought was true, and the next list finds what is missing.
pub(crate) struct Listing<T> {
    /// Named by this list: those that were decoded…
    seen: Table<T>,
    /// …and those that were not.
    seen_undecodable: BTreeSet<Key>,
    origin: Origin,
}

impl<T> Listing<T> {
    /// How many objects it has named so far.
    pub(crate) fn len(&self) -> usize
    where
        T: Object,
    {
        self.seen.len() + self.seen_undecodable.len()
    }
}

impl<T: Object> Mirror<T> {
    pub(crate) fn new(resource: ResourceType) -> Self {
        let counters = Arc::new(Counters::default());
        Self {
            resource,
            store: Store::new(),
            fanout: Arc::new(Fanout::new(counters.clone())),
            counters,
            milestones: Milestones::default(),
            synced: watch::Sender::new(false),
            doubts: Notify::new(),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    pub(crate) fn begin_list(&self) -> Listing<T> {
        let origin = if self.has_synced() { Origin::Relist } else { Origin::Initial };
        Listing { seen: Table::default(), seen_undecodable: BTreeSet::new(), origin }
    }

    /// Takes over one object of a list. Lists are authoritative: whatever differs from what is held counts, even
    /// if its version is lower, as it is after etcd was restored from a backup.
    pub(crate) fn listed(&self, list: &mut Listing<T>, bytes: &[u8]) {
        match decode::<T>(bytes) {
            Decoded::Object(object) => self.listed_object(list, object),
            Decoded::Undecodable(key, header, error) => {
                if self.is_news(list, &key, &header) {
                    self.apply_undecodable(key.clone(), header, &error, list.origin);
                }
                list.seen_undecodable.insert(key);
            }
            Decoded::Unidentified(error) => self.unidentified(&error),
        }
    }

    /// A change that the server reports while a streaming list is still under way.
    pub(crate) fn unlisted(&self, list: &mut Listing<T>, bytes: &[u8]) {
        if let Some(key) = self.delete(bytes, list.origin) {
            list.seen.remove(&key.namespace, &key.name);
            list.seen_undecodable.remove(&key);
        }
    }

    /// Removes what a complete list did not name. The store is then as the server was at `version`.
    pub(crate) fn finish_list(&self, list: Listing<T>, version: ResourceVersion) {
        for object in self.store.missing_from(&list.seen) {
            // Held only in a version that can still be read: the list did name it.
            if !list.seen_undecodable.contains(&object.key()) {
                self.remove(&object.key(), None, list.origin);
            }
        }
        for key in self.store.undecodable() {
            if !list.seen_undecodable.contains(&key) && !self.store.is_current(&key) {
                self.remove(&key, None, list.origin);
            }
        }
        if list.origin == Origin::Relist {
            Counters::add(&self.counters.relists, 1);
        }
        self.set_version(version);
        self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }

    /// Takes over one event of a watch. Within a watch versions only grow; what does not is a replay.
    pub(crate) fn watched(&self, event: &Event) {
        match event.kind {
            EventKind::Applied => self.watched_object(&event.object),
            EventKind::Deleted => {
                if self.delete(&event.object, Origin::Watch).is_none() {
                    Counters::add(&self.counters.ignored_events, 1);
                }
            }
            EventKind::Bookmark => {}
        }
    }

    /// Everything up to `version` has been heard.
    pub(crate) fn advance(&self, version: ResourceVersion) {
        if version > self.store.version_reached() {
            self.set_version(version);
        }
    }

    /// Reminds subscribers of objects they know. Only the informer's task changes the store, so objects that it
    /// has just read from there are current.
    pub(crate) fn remind(&self, objects: &[Arc<T>]) {
        let delivery = self.fanout.begin();
        for object in objects {
            delivery.tell(&Change { old: Some(object), new: Some(object), origin: Origin::Resync });
        }
    }

    fn set_version(&self, version: ResourceVersion) {
        self.store.set_version(version);
        self.milestones.passed(version);
    }

    fn listed_object(&self, list: &mut Listing<T>, object: Arc<T>) {
        let key = object.key();
        if self.is_news(list, &key, &Header::of(&*object)) {
            list.seen_undecodable.remove(&key);
            list.seen.insert(object.clone());
            self.put(&object, list.origin);
        } else if let Some(held) = self.store.get(&key) {
            // The copy already held: the one just decoded is dropped.
            list.seen.insert(held);
        }
    }

    /// Whether a list's object must be taken over. The first mention in a list counts if it differs from what is
    /// held; a streaming list may mention an object again because it changed meanwhile, so later ones must be newer.
    fn is_news(&self, list: &Listing<T>, key: &Key, header: &Header) -> bool {
        let Some(held) = self.store.header(key) else { return true };
        if header.version.is_unknown() {
            return true;
        }
        let mentioned =
            list.seen.get(&key.namespace, &key.name).is_some() || list.seen_undecodable.contains(key);
        if mentioned {
            header.version > held.version
        } else {
            held.version != header.version || held.uid != header.uid
        }
    }

    fn watched_object(&self, bytes: &[u8]) {
        let (version, applied) = match decode::<T>(bytes) {
            Decoded::Object(object) => {
                let version = object.meta().resource_version;
                let fresh = self.is_fresh(&object.key(), version);
                if fresh {
                    self.put(&object, Origin::Watch);
                }
                (version, fresh)
            }
            Decoded::Undecodable(key, header, error) => {
                let (version, fresh) = (header.version, self.is_fresh(&key, header.version));
                if fresh {
                    self.apply_undecodable(key, header, &error, Origin::Watch);
                }
                (version, fresh)
            }
            Decoded::Unidentified(error) => return self.unidentified(&error),
        };
        if applied {
            self.advance(version);
        } else {
            Counters::add(&self.counters.ignored_events, 1);
        }
    }

    /// Whether a watch event says something new. Of an object that is not held, only the version that the watch
    /// has reached tells whether it is new or an echo of one since deleted; several objects may share a version
    /// (etcd expires all keys of a lease at one), hence not "later than".
    fn is_fresh(&self, key: &Key, version: ResourceVersion) -> bool {
        version.is_unknown()
            || match self.store.header(key) {
                Some(held) => version > held.version,
                None => version >= self.store.version_reached(),
            }
    }

    /// Removes a deleted object; `None` if there is nothing to remove or the deletion is that of an earlier
    /// incarnation, told again.
    fn delete(&self, bytes: &[u8], origin: Origin) -> Option<Key> {
        let (key, header, last) = match decode::<T>(bytes) {
            Decoded::Object(object) => (object.key(), Header::of(&*object), Some(object)),
            Decoded::Undecodable(key, header, error) => {
                Counters::add(&self.counters.decode_failures, 1);
                warn!(resource = %self.resource, %key, %error, "the last state of a deleted object cannot be decoded");
                (key, header, None)
            }
            Decoded::Unidentified(error) => {
                self.unidentified(&error);
                return None;
            }
        };
        let held = self.store.header(&key);
        let due = held.is_some_and(|held| header.version.is_unknown() || header.version >= held.version);
        if due {
            self.remove(&key, last, origin);
        }
        if origin == Origin::Watch {
            self.advance(header.version);
        }
        due.then_some(key)
    }

    /// Puts an object into the store and tells. One that took the place of another of the same name is two
    /// changes: subscribers need not compare identities.
    fn put(&self, object: &Arc<T>, origin: Origin) {
        let delivery = self.fanout.begin();
        let key = object.key();
        self.part_with_other(&delivery, &key, &Header::of(&**object), origin);
        let old = self.store.put(object);
        delivery.tell(&Change { old: old.as_ref(), new: Some(object), origin });
    }

    /// Notes a version that cannot be decoded. The last readable version of the same object stays (see [`Store`]).
    fn apply_undecodable(&self, key: Key, header: Header, error: &serde_json::Error, origin: Origin) {
        Counters::add(&self.counters.decode_failures, 1);
        warn!(resource = %self.resource, %key, uid = %header.uid, version = %header.version, %error,
            "an object cannot be decoded; what is known of it is out of date until it can");
        let delivery = self.fanout.begin();
        self.part_with_other(&delivery, &key, &header, origin);
        self.store.mark_undecodable(key, header);
    }

    /// If another object is held under this name, it is gone: the server has one object of a name at a time.
    fn part_with_other(&self, delivery: &Delivery<'_, T>, key: &Key, header: &Header, origin: Origin) {
        let other = self.store.get(key).filter(|held| *held.uid() != header.uid);
        if let Some(old) = other.and_then(|_| self.store.take(key)) {
            delivery.tell(&Change::vanished(&old, origin));
        }
    }

    /// Removes what is held under `key`. Subscribers are shown the object's last state, as far as it is known.
    fn remove(&self, key: &Key, last: Option<Arc<T>>, origin: Origin) {
        let delivery = self.fanout.begin();
        let Some(held) = self.store.take(key) else { return };
        let last = last.filter(|last| last.uid() == held.uid()).unwrap_or(held);
        delivery.tell(&Change::vanished(&last, origin));
    }

    fn unidentified(&self, error: &dyn std::error::Error) {
        Counters::add(&self.counters.decode_failures, 1);
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        warn!(resource = %self.resource, %error, cause, "an object was left out: it cannot be identified");
    }
}
