//! How the running controllers are doing, for people who look: their queues, what waits at the barrier or in quarantine, and
//! how current their caches are.
//!
//! A manager that shows this passes an [`Insight`] among its extensions. Nothing is collected until somebody asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use flyball_api::ResourceType;
use flyball_cache::AnyInformer;
use parking_lot::Mutex;

use crate::barrier::Barrier;

/// The controllers of a process. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Insight {
    controllers: Arc<Mutex<BTreeMap<&'static str, Watched>>>,
}

#[derive(Default)]
struct Watched {
    barrier: Option<Barrier>,
    /// One for each queue. They are gone when the controller is set up again.
    pools: Vec<Weak<dyn WorkerPool>>,
}

/// The workers of one queue.
pub(crate) trait WorkerPool: Send + Sync {
    fn work(&self) -> Work;

    /// Syncs again what the budget for deletions has held.
    fn resume(&self);
}

/// The work of a controller: the sum over its queues, and the keys that stand out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that are due later: retries, and times that a controller waits for.
    pub delayed: usize,
    /// Keys that are being synced.
    pub running: usize,
    /// Keys whose last sync failed.
    pub failing: usize,
    /// Keys that wait until the cache shows what was written for them.
    pub at_barrier: usize,
    /// Syncs so far, and how many of them failed.
    pub syncs: u64,
    pub failures: u64,
    /// The key that has waited for a worker for longest.
    pub oldest: Option<(String, Duration)>,
    /// The key that has been synced for longest.
    pub longest: Option<(String, Duration)>,
    /// The key with the most failures in a row.
    pub worst: Option<(String, u32)>,
    /// Some of the keys whose sync panicked, with the time that they still wait, and how many there are.
    pub quarantined: Vec<(String, Duration)>,
    pub in_quarantine: usize,
}

/// A cache that does not follow the server at the moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Stale {
    pub resource: ResourceType,
    /// For how long.
    pub lasts: Duration,
    /// The latest error; empty before the first list.
    pub error: Arc<str>,
}

/// One controller.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerState {
    pub name: &'static str,
    /// `None` if it works in rounds instead of by key.
    pub work: Option<Work>,
    /// The number of caches that it needs.
    pub caches: usize,
    /// Those of them that are not current.
    pub stale: Vec<Stale>,
}

impl Insight {
    /// Notes that a controller is set up, also one that has no queue.
    pub(crate) fn set_up(&self, controller: &'static str, barrier: &Barrier) {
        let mut controllers = self.controllers.lock();
        let watched = controllers.entry(controller).or_default();
        watched.barrier = Some(barrier.clone());
        watched.pools.retain(|pool| pool.strong_count() > 0);
    }

    pub(crate) fn add(&self, controller: &'static str, pool: Weak<dyn WorkerPool>) {
        self.controllers.lock().entry(controller).or_default().pools.push(pool);
    }

    /// All controllers that are set up, by name.
    pub fn controllers(&self) -> Vec<ControllerState> {
        // Collected first: pools and caches have locks of their own.
        let found: Vec<_> = self
            .controllers
            .lock()
            .iter()
            .map(|(name, watched)| {
                let pools: Vec<_> = watched.pools.iter().filter_map(Weak::upgrade).collect();
                (*name, pools, watched.barrier.clone())
            })
            .collect();
        let state = |(name, pools, barrier): (_, Vec<Arc<dyn WorkerPool>>, Option<Barrier>)| {
            let work = pools.iter().map(|pool| pool.work()).reduce(Work::with);
            let caches = barrier.map(|barrier| barrier.needed()).unwrap_or_default();
            let stale = caches.iter().filter_map(stale).collect();
            ControllerState { name, work, caches: caches.len(), stale }
        };
        found.into_iter().map(state).collect()
    }
}

impl fmt::Debug for Insight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.controllers.lock().keys()).finish()
    }
}

fn stale(cache: &Arc<dyn AnyInformer>) -> Option<Stale> {
    let health = cache.health();
    if health.is_healthy() {
        return None;
    }
    let (lasts, error) = match health.failing {
        Some(failing) => (failing.since, failing.last_error),
        None => (Duration::ZERO, "".into()),
    };
    Some(Stale { resource: cache.resource().clone(), lasts, error })
}

impl Work {
    /// The work of two queues.
    fn with(mut self, other: Self) -> Self {
        self.ready += other.ready;
        self.delayed += other.delayed;
        self.running += other.running;
        self.failing += other.failing;
        self.at_barrier += other.at_barrier;
        self.syncs += other.syncs;
        self.failures += other.failures;
        self.oldest = larger(self.oldest, other.oldest);
        self.longest = larger(self.longest, other.longest);
        self.worst = larger(self.worst, other.worst);
        self.quarantined.extend(other.quarantined);
        self.in_quarantine += other.in_quarantine;
        self
    }
}

fn larger<T: PartialOrd>(one: Option<(String, T)>, other: Option<(String, T)>) -> Option<(String, T)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.1 > one.1 { other } else { one }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Work);

    impl WorkerPool for Fixed {
        fn resume(&self) {}

        fn work(&self) -> Work {
            self.0.clone()
        }
    }

    #[test]
    fn queues_of_a_controller_are_summed_and_gone_ones_are_not_counted() {
        let second = Duration::from_secs(1);
        let work = |ready, key: &str, waits| Work {
            ready,
            syncs: 10,
            oldest: Some((key.to_owned(), waits)),
            ..Work::default()
        };
        let insight = Insight::default();
        let (one, other): (Arc<dyn WorkerPool>, Arc<dyn WorkerPool>) =
            (Arc::new(Fixed(work(2, "a", second))), Arc::new(Fixed(work(3, "b", 2 * second))));
        insight.add("x", Arc::downgrade(&one));
        insight.add("x", Arc::downgrade(&other));
        let seen = || insight.controllers().remove(0).work;
        let both = Work { syncs: 20, ..work(5, "b", 2 * second) };
        assert_eq!(seen(), Some(both));
        drop(other);
        assert_eq!(seen(), Some(work(2, "a", second)));
        drop(one);
        assert_eq!(seen(), None);
    }
}
