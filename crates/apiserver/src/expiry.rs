//! Events expire: each is removed after its TTL, when the next event is written.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::server::Inner;
use crate::store::{Key, ShelfId, Write};

/// Maximum number of events that one write removes; many expiries are spread over the following writes.
const BATCH: usize = 64;

/// When which version of which event expires.
#[derive(Default)]
pub(crate) struct Expiry {
    queue: Mutex<VecDeque<(Timestamp, Key, u64)>>,
}

fn shelf() -> ShelfId {
    ShelfId::new("", "events")
}

impl Expiry {
    /// Adds the events that are in the store.
    pub(crate) fn load(&self, server: &Inner) {
        for entry in server.store.all(&shelf(), None) {
            self.note(server, &entry.key);
        }
    }

    /// To be called after an event was written: its TTL begins again. Expired events are removed.
    pub(crate) fn note(&self, server: &Inner, key: &Key) {
        let now = server.now();
        let ttl: Duration = server.options.event_ttl;
        let life = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
        if let Some(entry) = server.store.get(&shelf(), key) {
            let end = now.saturating_add(life).unwrap_or(Timestamp::MAX);
            self.queue.lock().push_back((end, key.clone(), entry.version));
        }
        for _ in 0..BATCH {
            let due = {
                let mut queue = self.queue.lock();
                match queue.front() {
                    Some((end, ..)) if *end <= now => queue.pop_front(),
                    _ => None,
                }
            };
            let Some((_, key, version)) = due else { return };
            let Some(entry) = server.store.get(&shelf(), &key).filter(|entry| entry.version == version)
            else {
                continue;
            };
            // Fails if the event has changed: then there is a later entry for it.
            let _ = server.store.commit(&shelf(), &key, Some(version), Write::Remove(entry.value()));
        }
    }
}
