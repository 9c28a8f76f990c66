//! A list in progress. Objects are applied as they arrive, so that a relist never holds two copies of everything. Objects that
//! the list does not contain are removed at its end. If it breaks off, the store is still correct: what was applied is
//! true, and the next list removes the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::{Key, Object, ResourceVersion};

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

    fn listed(&mut self, bytes: &[u8]);

    /// An object that is deleted while a streaming list is in progress.
    fn unlisted(&mut self, bytes: &[u8]);

    /// Removes the objects that the list did not contain. The store is then in the server's state at `version`.
    fn finish(self: Box<Self>, version: ResourceVersion);
}

pub(crate) struct ListingOf<T> {
    writer: Arc<StoreWriter<T>>,
    /// The objects of this list that could be decoded…
    seen: Table<T>,
    /// …and those that could not.
    seen_undecodable: BTreeSet<Key>,
    origin: Origin,
    which: Listed,
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
                    self.writer.apply_undecodable(key.clone(), header, &error, self.origin);
                }
                self.seen_undecodable.insert(key);
            }
            Decoded::Unidentified(error) => self.writer.state.unidentified(&error),
        }
    }

    fn unlisted(&mut self, bytes: &[u8]) {
        if let Some(key) = self.writer.delete(bytes, self.origin) {
            self.seen.remove(&key.namespace, &key.name);
            self.seen_undecodable.remove(&key);
        }
    }

    fn finish(self: Box<Self>, version: ResourceVersion) {
        let Self { writer, seen, seen_undecodable, origin, which } = *self;
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
        if origin == Origin::Relist {
            Counters::add(&writer.state.counters.relists, 1);
        }
        writer.state.listed.send_replace(which);
        writer.set_version(version);
        writer.state.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }
}

impl<T: Object> ListingOf<T> {
    pub(crate) fn begin(writer: Arc<StoreWriter<T>>) -> Self {
        let origin = if writer.state.has_synced() { Origin::Relist } else { Origin::Initial };
        let which = writer.state.begin_list();
        Self { writer, seen: Table::default(), seen_undecodable: BTreeSet::new(), origin, which }
    }

    fn listed_object(&mut self, object: Arc<T>) {
        let key = object.key();
        if self.is_news(&key, &Header::of(&*object)) {
            self.seen_undecodable.remove(&key);
            self.seen.insert(object.clone());
            self.writer.put(&object, self.origin);
        } else if let Some(held) = self.writer.store.get(&key) {
            // Keep the copy in the store, and drop the one just decoded.
            self.seen.insert(held);
        }
    }

    /// Whether an object of the list must be applied. Its first occurrence is applied if it differs from the store. A streaming
    /// list may contain an object again because it has changed meanwhile, so further occurrences must be newer.
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
            held.version != header.version || held.uid != header.uid
        }
    }
}
