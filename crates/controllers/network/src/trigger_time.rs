//! The value of the `last-change-trigger-time` annotation: when the change happened that led to a write. The network
//! programming latency is measured from it.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, Service, Timestamp};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// The timestamps of each Service and its pods at their last sync.
#[derive(Default)]
pub(crate) struct TriggerTimes {
    seen: Mutex<FxHashMap<Key, Seen>>,
}

struct Seen {
    service: Option<Timestamp>,
    pods: FxHashMap<SmolStr, Timestamp>,
}

impl TriggerTimes {
    /// Stores the present state and returns the time of the earliest change since the last call. The first time, that is
    /// the creation of the Service; `None` if no timestamp has changed.
    pub(crate) fn observe(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp;
        let times = pods.iter().filter_map(|pod| Some((pod.metadata.name.clone(), readiness_changed(pod)?)));
        let now = Seen { service: created, pods: times.collect() };
        // A key is synced by one worker at a time, so no other one uses this entry between the two locks.
        let key = service.key();
        let before = self.seen.lock().remove(&key);
        let trigger = match &before {
            None => created,
            Some(before) => earliest_change(before, &now),
        };
        self.seen.lock().insert(key, now);
        trigger
    }

    pub(crate) fn forget(&self, service: &Key) {
        self.seen.lock().remove(service);
    }
}

fn readiness_changed(pod: &Pod) -> Option<Timestamp> {
    pod.ready_condition()?.last_transition_time()
}

fn earliest_change(before: &Seen, now: &Seen) -> Option<Timestamp> {
    let is_newer = |time: &Timestamp, before: Option<&Timestamp>| before.is_none_or(|before| time > before);
    let pods = now.pods.iter().filter(|(name, time)| is_newer(time, before.pods.get(*name)));
    let service = now.service.filter(|time| is_newer(time, before.service.as_ref()));
    pods.map(|(_, time)| *time).chain(service).min()
}
