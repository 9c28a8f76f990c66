//! A list in progress. Objects are applied as they arrive, so that a relist never holds two copies of everything. Objects that
//! the list does not contain are removed at its end. If it breaks off, the store is still correct: what was applied is
//! true, and the next list removes the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::{Key, Object, ResourceVersion};
use flyball_client::RawObject;

use crate::change::Origin;
use crate::decode::{Decoded, decode};
use crate::metrics::Counters;
use crate::state::Listed;
use crate::store::Header;
use crate::store_writer::StoreWriter;
use crate::table::Table;

/// A list of any kind of objects. Lists are authoritative: an object that differs from the store is applied even if its
/// version is lower, as after a restore of etcd.
pub(crate) trait Listing: Send {
    /// How many objects it has contained so far.
    fn len(&self) -> usize;

    fn listed(&mut self, object: &RawObject);

    /// An object that is deleted while a streaming list is in progress.
    fn unlisted(&mut self, object: &RawObject);

    /// Removes the objects that the list did not contain. The store is then in the server's state at `version`. Returns
    /// whether the list shows that etcd was restored: it contradicts what the store had seen.
    fn finish(self: Box<Self>, version: ResourceVersion) -> bool;
}

pub(crate) struct ListingOf<T> {
    writer: Arc<StoreWriter<T>>,
    /// The objects of this list that could be decoded…
    seen: Table<T>,
    /// …and those that could not.
    seen_undecodable: BTreeSet<Key>,
    origin: Origin,
    which: Listed,
    /// Whether the server went back to an earlier version since the list before this one.
    is_after_restore: bool,
    /// Whether it contained an object in an older version than the store.
    is_older: bool,
    /// The version that the store had reached before.
    reached: ResourceVersion,
}

impl<T: Object> Listing for ListingOf<T> {
    fn len(&self) -> usize {
        self.seen.len() + self.seen_undecodable.len()
    }

    fn listed(&mut self, object: &RawObject) {
        match decode::<T>(object) {
            Decoded::Object(object) => self.listed_object(object),
            Decoded::Undecodable(key, header, error) => {
                if self.is_news(&key, &header) {
                    self.writer.apply_undecodable(key.clone(), header, error, self.origin);
                }
                self.seen_undecodable.insert(key);
            }
            Decoded::Unidentified(error) => self.writer.state.unidentified(error),
            Decoded::NeedsJson(error) => self.writer.state.needs_json(error),
        }
    }

    fn unlisted(&mut self, object: &RawObject) {
        if let Some(key) = self.writer.delete(object, self.origin) {
            self.seen.remove(&key.namespace, &key.name);
            self.seen_undecodable.remove(&key);
        }
    }

    fn finish(self: Box<Self>, version: ResourceVersion) -> bool {
        let Self { writer, seen, seen_undecodable, origin, which, is_after_restore, is_older, reached } =
            *self;
        for object in writer.store.missing_from(&seen) {
            // The store has an older version that could be decoded. The list did contain the object.
            if !seen_undecodable.contains(&object.key()) {
                writer.remove(&object.key(), None, origin);
            }
        }
        for key in writer.store.undecodable() {
            if !seen_undecodable.contains(&key) && !writer.store.is_current(&key) {
                writer.remove(&key, None, origin);
            }
        }
        if is_after_restore {
            writer.show_all();
        }
        if origin == Origin::Relist {
            Counters::add(&writer.state.counters.relists, 1);
        }
        let goes_back = is_after_restore || (!version.is_unknown() && version < reached);
        writer.forget_deleted(|key, uid| {
            let listed = seen.get(&key.namespace, &key.name);
            goes_back || seen_undecodable.contains(key) || listed.is_some_and(|object| object.uid() == uid)
        });
        writer.state.listed.send_replace(which);
        writer.set_version(version);
        writer.state.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        !is_after_restore && (is_older || (!version.is_unknown() && version < reached))
    }
}

impl<T: Object> ListingOf<T> {
    pub(crate) fn begin(writer: Arc<StoreWriter<T>>) -> Self {
        let origin = if writer.state.has_synced() { Origin::Relist } else { Origin::Initial };
        let which = writer.state.begin_list();
        let is_after_restore =
            origin == Origin::Relist && which.is_after_restore_since(&writer.state.listed.borrow());
        let (seen, seen_undecodable) = (Table::default(), BTreeSet::new());
        // Before the first list is complete, nothing is known that could be contradicted.
        let reached = match origin {
            Origin::Relist => writer.store.version_reached(),
            _ => ResourceVersion::default(),
        };
        Self { writer, seen, seen_undecodable, origin, which, is_after_restore, is_older: false, reached }
    }

    fn listed_object(&mut self, object: Arc<T>) {
        let (key, header) = (object.key(), Header::of(&*object));
        if self.is_news(&key, &header) {
            self.is_older |= self.is_older_than_held(&key, &header);
            self.seen_undecodable.remove(&key);
            self.seen.insert(object.clone());
            self.writer.put(&object, self.origin);
        } else if let Some(held) = self.writer.store.get(&key) {
            // Keep the copy in the store, and drop the one just decoded.
            self.seen.insert(held);
        }
    }

    fn is_older_than_held(&self, key: &Key, header: &Header) -> bool {
        let held = self.writer.store.header(key).filter(|held| held.uid == header.uid);
        !header.version.is_unknown() && held.is_some_and(|held| header.version < held.version)
    }

    /// Whether an object of the list must be applied. Its first occurrence is applied if it differs from the store. A streaming
    /// list may contain an object again because it has changed meanwhile, so further occurrences must be newer. After a
    /// restore, versions are used a second time, so equal versions may be different objects.
    fn is_news(&self, key: &Key, header: &Header) -> bool {
        let Some(held) = self.writer.store.header(key) else { return true };
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
