//! A list under way. Objects are taken over as they come, so that a relist never holds two copies of everything;
//! what the list does not name is removed at its end. One that breaks off leaves nothing wrong behind: what it
//! brought was true, and the next list finds what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::{Key, Object, ResourceVersion};

use crate::change::Origin;
use crate::course::Listed;
use crate::decode::{Decoded, decode};
use crate::metrics::Counters;
use crate::mirror::Mirror;
use crate::store::Header;
use crate::table::Table;

/// A list of any kind of objects. Lists are authoritative: whatever differs from what is held counts, even if its
/// version is lower, as it is after etcd was restored from a backup.
pub(crate) trait Listing: Send {
    /// How many objects it has named so far.
    fn len(&self) -> usize;

    fn listed(&mut self, bytes: &[u8]);

    /// An object that the server reports gone while a streaming list is still under way.
    fn unlisted(&mut self, bytes: &[u8]);

    /// Removes what the list, now complete, did not name. The store is then as the server was at `version`.
    fn finish(self: Box<Self>, version: ResourceVersion);
}

pub(crate) struct ListingOf<T> {
    mirror: Arc<Mirror<T>>,
    /// Named by this list: those that were decoded…
    seen: Table<T>,
    /// …and those that were not.
    seen_undecodable: BTreeSet<Key>,
    origin: Origin,
    which: Listed,
    /// Whether the server went back to an earlier version since the list before this one.
    is_after_restore: bool,
}

impl<T: Object> Listing for ListingOf<T> {
    fn len(&self) -> usize {
        self.seen.len() + self.seen_undecodable.len()
    }

    fn listed(&mut self, bytes: &[u8]) {
        match decode::<T>(bytes) {
            Decoded::Object(object) => self.listed_object(object),
            Decoded::Undecodable(key, header, error) => {
                if self.is_news(&key, &header) {
                    self.mirror.apply_undecodable(key.clone(), header, &error, self.origin);
                }
                self.seen_undecodable.insert(key);
            }
            Decoded::Unidentified(error) => self.mirror.course.unidentified(&error),
        }
    }

    fn unlisted(&mut self, bytes: &[u8]) {
        if let Some(key) = self.mirror.delete(bytes, self.origin) {
            self.seen.remove(&key.namespace, &key.name);
            self.seen_undecodable.remove(&key);
        }
    }

    fn finish(self: Box<Self>, version: ResourceVersion) {
        let Self { mirror, seen, seen_undecodable, origin, which, is_after_restore } = *self;
        for object in mirror.store.missing_from(&seen) {
            // Held only in a version that can still be read: the list did name it.
            if !seen_undecodable.contains(&object.key()) {
                mirror.remove(&object.key(), None, origin);
            }
        }
        for key in mirror.store.undecodable() {
            if !seen_undecodable.contains(&key) && !mirror.store.is_current(&key) {
                mirror.remove(&key, None, origin);
            }
        }
        if is_after_restore {
            mirror.show_all();
        }
        if origin == Origin::Relist {
            Counters::add(&mirror.course.counters.relists, 1);
        }
        mirror.course.listed.send_replace(which);
        mirror.set_version(version);
        mirror.course.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }
}

impl<T: Object> ListingOf<T> {
    pub(crate) fn begin(mirror: Arc<Mirror<T>>) -> Self {
        let origin = if mirror.course.has_synced() { Origin::Relist } else { Origin::Initial };
        let which = mirror.course.begin_list();
        let is_after_restore = origin == Origin::Relist && which.era > mirror.course.listed.borrow().era;
        let (seen, seen_undecodable) = (Table::default(), BTreeSet::new());
        Self { mirror, seen, seen_undecodable, origin, which, is_after_restore }
    }

    fn listed_object(&mut self, object: Arc<T>) {
        let key = object.key();
        if self.is_news(&key, &Header::of(&*object)) {
            self.seen_undecodable.remove(&key);
            self.seen.insert(object.clone());
            self.mirror.put(&object, self.origin);
        } else if let Some(held) = self.mirror.store.get(&key) {
            // The copy already held: the one just decoded is dropped.
            self.seen.insert(held);
        }
    }

    /// Whether a list's object must be taken over. The first mention in a list counts if it differs from what is
    /// held; a streaming list may mention an object again because it changed meanwhile, so later ones must be newer.
    /// After a restore versions are given out a second time, so an equal version tells nothing.
    fn is_news(&self, key: &Key, header: &Header) -> bool {
        let Some(held) = self.mirror.store.header(key) else { return true };
        if header.version.is_unknown() {
            return true;
        }
        let mentioned =
            self.seen.get(&key.namespace, &key.name).is_some() || self.seen_undecodable.contains(key);
        if mentioned {
            header.version > held.version
        } else {
            self.is_after_restore || held.version != header.version || held.uid != header.uid
        }
    }
}
