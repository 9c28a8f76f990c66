//! The writing side of a store: applies lists and events to it, and delivers the changes to subscribers. Synchronous; the
//! reflector does the requests.

use std::sync::Arc;

use flyball_api::{Key, Object, ResourceType, ResourceVersion, Uid};
use flyball_client::RawObject;
use parking_lot::Mutex;

use crate::change::{Change, Origin};
use crate::decode::{Decoded, decode};
use crate::era::{Era, Newest};
use crate::fanout::{Delivery, Fanout};
use crate::listing::{Listing, ListingOf};
use crate::metrics::Counters;
use crate::source::{Event, EventKind};
use crate::state::InformerState;
use crate::store::{Header, Store};

/// Objects that are resynced before the task yields.
const RESYNC_BATCH: usize = 512;

pub(crate) struct StoreWriter<T> {
    pub(crate) state: Arc<InformerState>,
    pub(crate) store: Store<T>,
    pub(crate) fanout: Arc<Fanout<T>>,
    /// The last object that a watch reported as deleted.
    deleted: Mutex<Option<(Key, Header)>>,
}

/// A [`StoreWriter`] without its type parameter, so that the reflector is compiled once and not for each kind.
pub(crate) trait AnyStoreWriter: Send + Sync {
    /// The version up to which the store has seen every change.
    fn version_reached(&self) -> ResourceVersion;

    /// The latest change: the object with the highest version, of those whose latest version could be decoded, or the last
    /// deleted one. Looks at all objects.
    fn newest(&self) -> Option<Newest>;

    /// Whether the store has the object of this name and uid.
    fn holds(&self, key: &Key, uid: &Uid) -> bool;

    fn len(&self) -> usize;

    fn begin_list(self: Arc<Self>) -> Box<dyn Listing>;

    /// Applies one watch event. Within a watch versions only grow; other events are replays, and ignored.
    fn watched(&self, event: &Event);

    /// Records that everything up to `version` has been received.
    fn advance(&self, version: ResourceVersion);

    /// A function that delivers a batch of all objects with each call, as a resync, and returns `false` after the last.
    fn resync_batches(self: Arc<Self>) -> Box<dyn FnMut() -> bool + Send>;
}

impl<T: Object> AnyStoreWriter for StoreWriter<T> {
    fn version_reached(&self) -> ResourceVersion {
        self.store.version_reached()
    }

    fn newest(&self) -> Option<Newest> {
        let newest = |key, header, is_deleted| Newest { key, header, is_deleted };
        let held = self.store.newest().map(|object| newest(object.key(), Header::of(&*object), false));
        let deleted = self.deleted.lock().clone().map(|(key, header)| newest(key, header, true));
        held.into_iter().chain(deleted).max_by_key(|newest| newest.header.version)
    }

    fn holds(&self, key: &Key, uid: &Uid) -> bool {
        self.store.header(key).is_some_and(|held| held.uid == *uid)
    }

    fn len(&self) -> usize {
        self.store.len()
    }

    fn begin_list(self: Arc<Self>) -> Box<dyn Listing> {
        Box::new(ListingOf::begin(self))
    }

    fn watched(&self, event: &Event) {
        match event.kind {
            EventKind::Applied => self.watched_object(&event.object),
            EventKind::Deleted => {
                if self.delete(&event.object, Origin::Watch).is_none() {
                    Counters::add(&self.state.counters.ignored_events, 1);
                }
            }
            EventKind::Bookmark => {}
        }
    }

    fn advance(&self, version: ResourceVersion) {
        if version > self.store.version_reached() {
            self.set_version(version);
        }
    }

    fn resync_batches(self: Arc<Self>) -> Box<dyn FnMut() -> bool + Send> {
        // They stay current: only the reflector changes the store, and it waits for the resync.
        let mut objects = self.store.list().into_iter();
        Box::new(move || {
            let delivery = self.fanout.begin();
            for object in objects.by_ref().take(RESYNC_BATCH) {
                let known = Some(&object);
                delivery.deliver(&Change { old: known, new: known, origin: Origin::Resync });
            }
            objects.len() > 0
        })
    }
}

impl<T: Object> StoreWriter<T> {
    pub(crate) fn new(resource: ResourceType, era: Arc<Era>) -> Self {
        let state = Arc::new(InformerState::new(resource, era));
        let fanout = Arc::new(Fanout::new(state.clone()));
        Self { store: Store::new(), fanout, state, deleted: Mutex::default() }
    }

    /// Forgets the last deletion if a list shows that it was undone. Otherwise a later restore of etcd may still undo it.
    pub(crate) fn forget_deleted(&self, was_undone: impl Fn(&Key, &Uid) -> bool) {
        self.deleted.lock().take_if(|(key, header)| was_undone(key, &header.uid));
    }

    pub(crate) fn set_version(&self, version: ResourceVersion) {
        let goes_back = version < self.store.version_reached();
        self.store.set_version(version);
        match goes_back {
            true => self.state.version_waits.wake_all(),
            false => self.state.version_waits.passed(version),
        }
    }

    /// Delivers all objects to subscribers as if they were new. A write may have been undone by a restore before its watch
    /// event arrived; the cache does not change then, and this is what makes controllers sync the object again.
    pub(crate) fn show_all(&self) {
        let delivery = self.fanout.begin();
        for object in self.store.list() {
            delivery.deliver(&Change::appeared(&object, Origin::Initial));
        }
    }

    fn watched_object(&self, object: &RawObject) {
        let (version, applied) = match decode::<T>(object) {
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
                    self.apply_undecodable(key, header, error, Origin::Watch);
                }
                (version, fresh)
            }
            Decoded::Unidentified(error) => return self.state.unidentified(error),
            Decoded::NeedsJson(error) => return self.state.needs_json(error),
        };
        if applied {
            self.advance(version);
        } else {
            Counters::add(&self.state.counters.ignored_events, 1);
        }
    }

    /// Whether a watch event is new. For an object that is not in the store, only the version reached shows whether it is new
    /// or a replay of a deleted one. Several objects may share a version (etcd expires all keys of a lease at once), hence
    /// `>=`.
    fn is_fresh(&self, key: &Key, version: ResourceVersion) -> bool {
        version.is_unknown()
            || match self.store.header(key) {
                Some(held) => version > held.version,
                None => version >= self.store.version_reached(),
            }
    }

    /// Removes a deleted object; `None` if there is nothing to remove, or if the event is a replay about an earlier object of
    /// that name.
    pub(crate) fn delete(&self, object: &RawObject, origin: Origin) -> Option<Key> {
        let (key, header, last) = match decode::<T>(object) {
            Decoded::Object(object) => (object.key(), Header::of(&*object), Some(object)),
            Decoded::Undecodable(key, header, error) => {
                self.state.undecodable_end(&key, error);
                (key, header, None)
            }
            Decoded::Unidentified(error) => {
                self.state.unidentified(error);
                return None;
            }
            Decoded::NeedsJson(error) => {
                self.state.needs_json(error);
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
            if due {
                *self.deleted.lock() = Some((key.clone(), header));
            }
        }
        due.then_some(key)
    }

    /// Puts an object into the store and delivers the change. An object that replaces another of the same name makes two
    /// changes, so that subscribers need not compare uids.
    pub(crate) fn put(&self, object: &Arc<T>, origin: Origin) {
        let delivery = self.fanout.begin();
        let key = object.key();
        self.remove_predecessor(&delivery, &key, &Header::of(&**object), origin);
        let old = self.store.put(object);
        // A list may repeat the version that is held because a later one cannot be decoded.
        let version = object.meta().resource_version;
        let is_held = |old: &Arc<T>| !version.is_unknown() && old.meta().resource_version == version;
        if !old.as_ref().is_some_and(is_held) {
            delivery.deliver(&Change { old: old.as_ref(), new: Some(object), origin });
        }
    }

    /// Records a version that cannot be decoded. The last decodable version of the same object stays (see [`Store`]).
    pub(crate) fn apply_undecodable(
        &self,
        key: Key,
        header: Header,
        error: serde_json::Error,
        origin: Origin,
    ) {
        self.state.undecodable(&key, &header, error);
        let delivery = self.fanout.begin();
        self.remove_predecessor(&delivery, &key, &header, origin);
        self.store.mark_undecodable(key, header);
    }

    /// Removes an object of the same name with another uid: the server has replaced it.
    fn remove_predecessor(&self, delivery: &Delivery<'_, T>, key: &Key, header: &Header, origin: Origin) {
        let other = self.store.get(key).filter(|held| *held.uid() != header.uid);
        if let Some(old) = other.and_then(|_| self.store.take(key)) {
            delivery.deliver(&Change::vanished(&old, origin));
        }
    }

    /// Removes `key`. Subscribers receive the object's last known state.
    pub(crate) fn remove(&self, key: &Key, last: Option<Arc<T>>, origin: Origin) {
        let delivery = self.fanout.begin();
        let Some(held) = self.store.take(key) else { return };
        let last = last.filter(|last| last.uid() == held.uid()).unwrap_or(held);
        delivery.deliver(&Change::vanished(&last, origin));
    }
}
