//! Who waits for a taint, and who is next: each zone in order of arrival, no faster than its rate. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

/// What the one who taints has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    Node {
        zone: SmolStr,
        node: SmolStr,
    },
    At(Instant),
    /// Come back when something has changed.
    Idle,
}

/// The nodes that wait, by zone.
#[derive(Debug, Default)]
pub struct Pacing {
    zones: BTreeMap<SmolStr, Zone>,
    places: FxHashMap<SmolStr, (SmolStr, u64)>,
    last_ticket: u64,
}

#[derive(Debug)]
struct Zone {
    waiting: BTreeMap<u64, SmolStr>,
    bucket: Bucket,
}

impl Pacing {
    /// Sets how many nodes per second may be tainted in a zone; zero for none. A zone that is new may begin with one
    /// at once, one whose rate changes may not unless it could before.
    pub fn set_rate(&mut self, zone: &SmolStr, rate: f32, now: Instant) {
        match self.zones.get_mut(zone) {
            Some(known) => known.bucket.set_rate(rate, now),
            None => {
                let bucket = Bucket::new(rate, now);
                self.zones.insert(zone.clone(), Zone { waiting: BTreeMap::new(), bucket });
            }
        }
    }

    /// Lets a node wait. One that waits already keeps its place.
    pub fn enter(&mut self, zone: &SmolStr, node: &SmolStr) {
        if self.places.get(node).is_some_and(|(waits_in, _)| waits_in == zone) {
            return;
        }
        self.leave(node);
        // A zone gets its rate before its nodes come.
        let Some(known) = self.zones.get_mut(zone) else { return };
        self.last_ticket += 1;
        known.waiting.insert(self.last_ticket, node.clone());
        self.places.insert(node.clone(), (zone.clone(), self.last_ticket));
    }

    /// A node needs no taint any more.
    pub fn leave(&mut self, node: &str) {
        if let Some((zone, ticket)) = self.places.remove(node)
            && let Some(zone) = self.zones.get_mut(&zone)
        {
            zone.waiting.remove(&ticket);
        }
    }

    pub fn waits(&self, node: &str) -> bool {
        self.places.contains_key(node)
    }

    /// Zones without nodes are forgotten.
    pub fn keep_zones(&mut self, is_there: impl Fn(&SmolStr) -> bool) {
        self.zones.retain(|zone, _| is_there(zone));
        self.places.retain(|_, (zone, _)| is_there(zone));
    }

    /// Takes out the next node whose zone has a turn.
    pub fn next(&mut self, now: Instant) -> Turn {
        let mut soonest: Option<Instant> = None;
        for (name, zone) in &mut self.zones {
            let Some(first) = zone.waiting.first_entry() else { continue };
            match zone.bucket.take(now) {
                Ok(()) => {
                    let node = first.remove();
                    self.places.remove(&node);
                    return Turn::Node { zone: name.clone(), node };
                }
                Err(when) => soonest = soonest.into_iter().chain(when).min(),
            }
        }
        soonest.map_or(Turn::Idle, Turn::At)
    }
}

/// Turns that come at a rate; at most one can be saved up.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// `None`: no turn ever.
    interval: Option<Duration>,
    /// When the next turn is there.
    ready: Instant,
}

impl Bucket {
    fn new(rate: f32, now: Instant) -> Self {
        Self { interval: interval(rate), ready: now }
    }

    /// Takes a turn, or says when there will be one.
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

    /// Upstream: `RateLimitedTimedQueue.SwapLimiter`: a zone that had no turn left begins with none.
    fn set_rate(&mut self, rate: f32, now: Instant) {
        let new = interval(rate);
        if new == self.interval {
            return;
        }
        let had_turn = self.interval.is_some() && self.ready <= now;
        self.ready = match new {
            Some(interval) if !had_turn => now.checked_add(interval).unwrap_or(now),
            _ => now,
        };
        self.interval = new;
    }
}

fn interval(rate: f32) -> Option<Duration> {
    (rate > 0.0).then(|| Duration::try_from_secs_f64(1.0 / f64::from(rate)).unwrap_or(Duration::MAX))
}
