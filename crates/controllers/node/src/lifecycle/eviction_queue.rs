//! The nodes that wait for the taint that evicts their pods: each zone in order of arrival, no faster than its rate. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

/// What the tainter has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Taint {
        zone: SmolStr,
        node: SmolStr,
    },
    At(Instant),
    /// Nothing, until the queue changes.
    Idle,
}

#[derive(Debug, Default)]
pub struct EvictionQueue {
    zones: BTreeMap<SmolStr, Zone>,
    tickets: FxHashMap<SmolStr, (SmolStr, u64)>,
    last_ticket: u64,
}

#[derive(Debug)]
struct Zone {
    waiting: BTreeMap<u64, SmolStr>,
    bucket: Bucket,
}

impl EvictionQueue {
    /// Sets how many nodes per second may be tainted in a zone; zero for none. In a new zone the first may be tainted at
    /// once; a changed rate does not allow that unless the one before did.
    pub fn set_rate(&mut self, zone: &SmolStr, rate: f32, now: Instant) {
        match self.zones.get_mut(zone) {
            Some(known) => known.bucket.set_rate(rate, now),
            None => {
                let bucket = Bucket::new(rate, now);
                self.zones.insert(zone.clone(), Zone { waiting: BTreeMap::new(), bucket });
            }
        }
    }

    /// Adds a node. One that is in the queue of its zone already keeps its place.
    pub fn add(&mut self, zone: &SmolStr, node: &SmolStr) {
        if self.tickets.get(node).is_some_and(|(queued_in, _)| queued_in == zone) {
            return;
        }
        self.remove(node);
        // Rates are set before nodes are added.
        let Some(known) = self.zones.get_mut(zone) else { return };
        self.last_ticket += 1;
        known.waiting.insert(self.last_ticket, node.clone());
        self.tickets.insert(node.clone(), (zone.clone(), self.last_ticket));
    }

    pub fn remove(&mut self, node: &str) {
        if let Some((zone, ticket)) = self.tickets.remove(node)
            && let Some(zone) = self.zones.get_mut(&zone)
        {
            zone.waiting.remove(&ticket);
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = &SmolStr> {
        self.tickets.keys()
    }

    pub fn retain_zones(&mut self, exists: impl Fn(&SmolStr) -> bool) {
        self.zones.retain(|zone, _| exists(zone));
        self.tickets.retain(|_, (zone, _)| exists(zone));
    }

    /// Takes out the next node that may be tainted by the rate of its zone.
    pub fn pop(&mut self, now: Instant) -> Next {
        let mut soonest: Option<Instant> = None;
        for (name, zone) in &mut self.zones {
            let Some(first) = zone.waiting.first_entry() else { continue };
            match zone.bucket.take(now) {
                Ok(()) => {
                    let node = first.remove();
                    self.tickets.remove(&node);
                    return Next::Taint { zone: name.clone(), node };
                }
                Err(when) => soonest = soonest.into_iter().chain(when).min(),
            }
        }
        soonest.map_or(Next::Idle, Next::At)
    }
}

/// A token bucket that holds at most one token.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// `None`: there is never a token.
    interval: Option<Duration>,
    /// When there is a token.
    ready: Instant,
}

impl Bucket {
    fn new(rate: f32, now: Instant) -> Self {
        Self { interval: interval(rate), ready: now }
    }

    /// Takes the token, or returns when there will be one.
    fn take(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        let interval = self.interval.ok_or(None)?;
        if self.ready > now {
            return Err(Some(self.ready));
        }
        match now.checked_add(interval) {
            Some(next) => self.ready = next,
            None => self.interval = None,
        }
        Ok(())
    }

    /// Upstream: `RateLimitedTimedQueue.SwapLimiter`: without a token before, there is none after.
    fn set_rate(&mut self, rate: f32, now: Instant) {
        let new = interval(rate);
        if new == self.interval {
            return;
        }
        let had_token = self.interval.is_some() && self.ready <= now;
        self.ready = match new {
            Some(interval) if !had_token => now.checked_add(interval).unwrap_or(now),
            _ => now,
        };
        self.interval = new;
    }
}

fn interval(rate: f32) -> Option<Duration> {
    (rate > 0.0).then(|| Duration::try_from_secs_f64(1.0 / f64::from(rate)).unwrap_or(Duration::MAX))
}
