//! Which pods are to go when. Holds only pods that wait for their time or whose deletion is under way.

use flyball_api::{Key, Uid};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// An eviction that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Booking {
    /// The pod; another one of its name is not meant.
    pub(super) uid: Uid,
    /// When it has to go.
    pub(super) due: Instant,
    /// Whether users were told that it goes now.
    pub(super) told: bool,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    bookings: Mutex<FxHashMap<Key, Booking>>,
}

impl Book {
    pub(super) fn has(&self, pod: &Key) -> bool {
        self.bookings.lock().contains_key(pod)
    }

    pub(super) fn get(&self, pod: &Key) -> Option<Booking> {
        self.bookings.lock().get(pod).cloned()
    }

    pub(super) fn set(&self, pod: &Key, booking: Booking) {
        self.bookings.lock().insert(pod.clone(), booking);
    }

    pub(super) fn strike(&self, pod: &Key) -> Option<Booking> {
        self.bookings.lock().remove(pod)
    }
}
