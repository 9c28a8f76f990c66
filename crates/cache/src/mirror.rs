//! The writing side of a store: what a list or an event means for what is held, and who is told.
//! Plain synchronous code; where lists and events come from is the reflector's business.

use std::sync::Arc;

use flyball_api::{Key, Object, ResourceType, ResourceVersion};

use crate::change::{Change, Origin};
use crate::course::Course;
use crate::decode::{Decoded, decode};
use crate::era::Era;
use crate::fanout::{Delivery, Fanout};
use crate::listing::{Listing, ListingOf};
use crate::metrics::Counters;
use crate::source::{Event, EventKind};
use crate::store::{Header, Store};

/// Objects reminded of in one go before other tasks get their turn.
const REMINDERS: usize = 512;

/// One resource as the informer holds it.
pub(crate) struct Mirror<T> {
    pub(crate) course: Arc<Course>,
    pub(crate) store: Store<T>,
    pub(crate) fanout: Arc<Fanout<T>>,
}

/// A mirror of any kind of objects: all that a reflector needs, so that the program has one reflector and not one
/// for each kind.
pub(crate) trait AnyMirror: Send + Sync {
    /// The version up to which the store has seen every change.
    fn version_reached(&self) -> ResourceVersion;

    /// The newest object, if there is one whose newest version could be decoded. Looks at all of them.
    fn newest(&self) -> Option<(Key, Header)>;

    /// How many objects there are.
    fn len(&self) -> usize;

    fn begin_list(self: Arc<Self>) -> Box<dyn Listing>;

    /// Takes over one event of a watch. Within a watch versions only grow; what does not is a replay.
    fn watched(&self, event: &Event);

    /// Everything up to `version` has been heard.
    fn advance(&self, version: ResourceVersion);

    /// Reminds subscribers of the objects that they know, some with each call, until it returns `false`.
    fn reminders(self: Arc<Self>) -> Box<dyn FnMut() -> bool + Send>;
}

impl<T: Object> AnyMirror for Mirror<T> {
    fn version_reached(&self) -> ResourceVersion {
        self.store.version_reached()
    }

    fn newest(&self) -> Option<(Key, Header)> {
        self.store.newest().map(|object| (object.key(), Header::of(&*object)))
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
                    Counters::add(&self.course.counters.ignored_events, 1);
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

    fn reminders(self: Arc<Self>) -> Box<dyn FnMut() -> bool + Send> {
        // They stay current: only the reflector changes the store, and it is busy reminding.
        let mut objects = self.store.list().into_iter();
        Box::new(move || {
            let delivery = self.fanout.begin();
            for object in objects.by_ref().take(REMINDERS) {
                let known = Some(&object);
                delivery.tell(&Change { old: known, new: known, origin: Origin::Resync });
            }
            objects.len() > 0
        })
    }
}

impl<T: Object> Mirror<T> {
    pub(crate) fn new(resource: ResourceType, era: Arc<Era>) -> Self {
        let course = Arc::new(Course::new(resource, era));
        Self { store: Store::new(), fanout: Arc::new(Fanout::new(course.clone())), course }
    }

    pub(crate) fn set_version(&self, version: ResourceVersion) {
        let goes_back = version < self.store.version_reached();
        self.store.set_version(version);
        match goes_back {
            true => self.course.milestones.void(),
            false => self.course.milestones.passed(version),
        }
    }

    /// Shows subscribers all objects as if they had just come. After a restore nothing else tells of a write that was
    /// answered and undone before its event arrived: the cache holds what it held before.
    pub(crate) fn show_all(&self) {
        let delivery = self.fanout.begin();
        for object in self.store.list() {
            delivery.tell(&Change::appeared(&object, Origin::Initial));
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
            Decoded::Unidentified(error) => return self.course.unidentified(&error),
        };
        if applied {
            self.advance(version);
        } else {
            Counters::add(&self.course.counters.ignored_events, 1);
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
    pub(crate) fn delete(&self, bytes: &[u8], origin: Origin) -> Option<Key> {
        let (key, header, last) = match decode::<T>(bytes) {
            Decoded::Object(object) => (object.key(), Header::of(&*object), Some(object)),
            Decoded::Undecodable(key, header, error) => {
                self.course.undecodable_end(&key, &error);
                (key, header, None)
            }
            Decoded::Unidentified(error) => {
                self.course.unidentified(&error);
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
    pub(crate) fn put(&self, object: &Arc<T>, origin: Origin) {
        let delivery = self.fanout.begin();
        let key = object.key();
        self.part_with_other(&delivery, &key, &Header::of(&**object), origin);
        let old = self.store.put(object);
        delivery.tell(&Change { old: old.as_ref(), new: Some(object), origin });
    }

    /// Notes a version that cannot be decoded. The last readable version of the same object stays (see [`Store`]).
    pub(crate) fn apply_undecodable(
        &self,
        key: Key,
        header: Header,
        error: &serde_json::Error,
        origin: Origin,
    ) {
        self.course.undecodable(&key, &header, error);
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
    pub(crate) fn remove(&self, key: &Key, last: Option<Arc<T>>, origin: Origin) {
        let delivery = self.fanout.begin();
        let Some(held) = self.store.take(key) else { return };
        let last = last.filter(|last| last.uid() == held.uid()).unwrap_or(held);
        delivery.tell(&Change::vanished(&last, origin));
    }
}
