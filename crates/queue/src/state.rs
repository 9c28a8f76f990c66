//! The state of a queue, without locks or waiting. The time is a parameter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use flyball_api::room;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::backoff::Bucket;
use crate::{Backoff, Priority, QueueKey};

/// After this many changes in a row, a key of a sweep is processed, so that sweeps are not starved.
const CHANGES_IN_A_ROW: u32 = 7;

/// The state of one key. A key without an entry is not queued, not being processed and not failing.
#[derive(Default)]
pub(crate) struct Entry {
    /// The priority and the time since when it is queued.
    pub(crate) wanted: Option<(Priority, Instant)>,
    /// Since when it is being processed.
    pub(crate) running: Option<Instant>,
    /// Due at a later time; items of the heap with another time are obsolete.
    due: Option<Instant>,
    pub(crate) failures: u32,
}

impl Entry {
    fn is_blank(&self) -> bool {
        self.wanted.is_none() && self.running.is_none() && self.due.is_none() && self.failures == 0
    }
}

pub(crate) struct State<K: QueueKey> {
    entries: FxHashMap<K, Entry>,
    /// One lane per priority. A key that was promoted leaves an obsolete item in the slower lane.
    lanes: [VecDeque<K>; 2],
    later: BinaryHeap<Reverse<(Instant, K)>>,
    /// Changes processed in a row while the sweep waited.
    passed_over: u32,
    /// When an idle worker is going to wake up for the first delayed key.
    alarm: Option<Instant>,
    ready: usize,
    delayed: usize,
    backoff: Backoff,
    bucket: Bucket,
    closed: bool,
}

impl<K: QueueKey> State<K> {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            entries: FxHashMap::default(),
            lanes: [VecDeque::new(), VecDeque::new()],
            later: BinaryHeap::new(),
            passed_over: 0,
            alarm: None,
            ready: 0,
            delayed: 0,
            bucket: Bucket::new(backoff.rate, backoff.burst),
            backoff,
            closed: false,
        }
    }

    /// Queues `key`; true if that made it ready for a worker.
    pub(crate) fn add(&mut self, key: K, priority: Priority, now: Instant) -> bool {
        if self.closed {
            return false;
        }
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.wanted {
            Some((held, _)) if held <= priority => false,
            Some((_, since)) => {
                entry.wanted = Some((priority, since));
                if entry.running.is_none() {
                    self.lanes[priority as usize].push_back(key);
                }
                false
            }
            None => {
                entry.wanted = Some((priority, now));
                if entry.running.is_some() {
                    return false;
                }
                self.lanes[priority as usize].push_back(key);
                self.ready += 1;
                true
            }
        }
    }

    /// Delays `key` until `due`; true if the timer has to be set again.
    pub(crate) fn add_at(&mut self, key: K, due: Instant) -> bool {
        if self.closed {
            return false;
        }
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.due {
            Some(held) if held <= due => return false,
            Some(_) => {}
            None => self.delayed += 1,
        }
        entry.due = Some(due);
        let earliest = self.next_due().is_none_or(|first| due < first);
        self.later.push(Reverse((due, key)));
        if self.later.len() > 2 * self.delayed + 64 {
            self.sweep_leftovers();
        }
        earliest
    }

    /// Removes obsolete items, so that the heap is not larger than the queue.
    fn sweep_leftovers(&mut self) {
        let entries = &self.entries;
        self.later
            .retain(|Reverse((due, key))| entries.get(key).is_some_and(|entry| entry.due == Some(*due)));
    }

    /// Makes keys ready that are due at `now`, and returns how many.
    pub(crate) fn promote_due(&mut self, now: Instant) -> usize {
        let mut promoted = 0;
        while self.later.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((due, key))) = self.later.pop() else { break };
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if entry.due != Some(due) {
                continue;
            }
            entry.due = None;
            self.delayed -= 1;
            promoted += usize::from(self.add(key, Priority::Change, now));
        }
        promoted
    }

    /// Returns the next key and how long it has waited.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let is_turn_of_sweep = self.passed_over >= CHANGES_IN_A_ROW;
        let order = match is_turn_of_sweep {
            true => [Priority::Sweep, Priority::Change],
            false => [Priority::Change, Priority::Sweep],
        };
        for lane in order {
            while let Some(key) = self.lanes[lane as usize].pop_front() {
                let Some(entry) = self.entries.get_mut(&key) else { continue };
                let Some((priority, since)) = entry.wanted else { continue };
                if priority != lane || entry.running.is_some() {
                    continue;
                }
                entry.wanted = None;
                entry.running = Some(now);
                self.ready -= 1;
                let passes_over =
                    lane == Priority::Change && !self.lanes[Priority::Sweep as usize].is_empty();
                self.passed_over = if passes_over && !is_turn_of_sweep { self.passed_over + 1 } else { 0 };
                return Some((key, now.duration_since(since)));
            }
        }
        None
    }

    /// Marks `key` as processed; true if it was added meanwhile and is ready again.
    pub(crate) fn done(&mut self, key: &K, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.running = None;
        if let Some((priority, _)) = entry.wanted.filter(|_| !self.closed) {
            entry.wanted = Some((priority, now));
            self.lanes[priority as usize].push_back(key.clone());
            self.ready += 1;
            return true;
        }
        self.drop_if_blank(key);
        false
    }

    /// Counts a failure of `key`, and returns its delay.
    pub(crate) fn next_delay(&mut self, key: &K, now: Instant) -> Duration {
        let entry = self.entries.entry(key.clone()).or_default();
        let own = self.backoff.delay(entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        own.max(self.bucket.reserve(now))
    }

    pub(crate) fn forget(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
            self.drop_if_blank(key);
        }
    }

    pub(crate) fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// When the next delayed key is due. Because of obsolete items, it may be too early, which is harmless.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse((due, _))| *due)
    }

    /// When the calling idle worker has to wake up. `None` if another worker does: one timer is enough.
    pub(crate) fn set_alarm(&mut self) -> Option<Instant> {
        let due = self.next_due()?;
        if self.alarm.is_some_and(|set| set <= due) {
            return None;
        }
        self.alarm = Some(due);
        Some(due)
    }

    /// Whether there are delayed keys and no timer is set.
    pub(crate) fn needs_alarm(&self) -> bool {
        self.alarm.is_none() && !self.later.is_empty()
    }

    /// The worker with the timer for `alarm` is awake or cancelled. True if that was the current timer, so that another
    /// worker has to set it again.
    pub(crate) fn clear_alarm(&mut self, alarm: Instant) -> bool {
        let was_set = self.alarm == Some(alarm);
        if was_set {
            self.alarm = None;
        }
        was_set && !self.later.is_empty()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&K, &Entry)> {
        self.entries.iter()
    }

    pub(crate) fn depth(&self) -> usize {
        self.ready
    }

    pub(crate) fn delayed(&self) -> usize {
        self.delayed
    }

    #[cfg(test)]
    pub(crate) fn alarms(&self) -> usize {
        self.later.len()
    }

    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        let lanes: usize = self.lanes.iter().map(VecDeque::capacity).sum();
        self.entries.capacity() + lanes + self.later.capacity()
    }

    pub(crate) fn started(&self) -> impl Iterator<Item = Instant> {
        self.entries.values().filter_map(|entry| entry.running)
    }

    pub(crate) fn running_keys(&self) -> Vec<K> {
        let running = self.entries.iter().filter(|(_, entry)| entry.running.is_some());
        running.map(|(key, _)| key.clone()).collect()
    }

    /// How many keys are being processed, and how many have an entry.
    pub(crate) fn running(&self) -> (usize, usize) {
        (self.started().count(), self.entries.len())
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    fn drop_if_blank(&mut self, key: &K) {
        if self.entries.get(key).is_some_and(Entry::is_blank) {
            self.entries.remove(key);
            self.give_back();
        }
    }

    /// Frees memory after a burst of keys.
    fn give_back(&mut self) {
        if let Some(room) = room::to_keep(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(room);
            for lane in &mut self.lanes {
                lane.shrink_to(room);
            }
            self.later.shrink_to(room);
        }
    }
}
