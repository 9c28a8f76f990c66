//! When the change happened that a write answers: what the `last-change-trigger-time` annotation says, from which
//! the latency of the network's programming is measured.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, Service, Timestamp};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// What each Service and its pods looked like when they were last synced.
#[derive(Default)]
pub(crate) struct TriggerTimes {
    seen: Mutex<FxHashMap<Key, Seen>>,
}

struct Seen {
    service: Option<Timestamp>,
    pods: FxHashMap<SmolStr, Timestamp>,
}

impl TriggerTimes {
    /// Takes note of the present state and says when the earliest change since the last call happened. The first
    /// time, that is the creation of the Service; `None` if nothing with a time has changed.
    pub(crate) fn observe(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp;
        let times = pods.iter().filter_map(|pod| Some((pod.metadata.name.clone(), readiness_changed(pod)?)));
        let now = Seen { service: created, pods: times.collect() };
        // A key is never in two workers' hands, so between the two locks nobody else looks at this entry.
        let key = service.key();
        let before = self.seen.lock().remove(&key);
        let trigger = match &before {
            None => created,
            Some(before) => earliest_change(before, &now),
        };
        self.seen.lock().insert(key, now);
        trigger
    }

    /// Forgets a Service that is gone.
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
