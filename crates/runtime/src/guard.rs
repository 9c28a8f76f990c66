//! The budget for deletions (`--flyball-deletions-per-minute`): a controller that deletes more objects than that within a minute
//! is stopped from deleting until an administrator lifts the hold. So a bug of a controller, or a wrong change by a user, costs a
//! few pods rather than all.
//!
//! The hold is lifted by an annotation on the Namespace `kube-system` ([`CONTINUE`]): the time until which the controller's
//! deletions are not counted. The annotation survives a restart of this process; the counts do not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use flyball_api::{Key, Namespace, Object as _, ResourceType, Timestamp};
use flyball_cache::{Informers, Subscription};
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::events::{ObjectRef, Recorder};
use crate::insight::WorkerPool;
use crate::metrics::{DELETIONS_HELD, DELETIONS_REFUSED, Metrics};

/// What the annotation begins with; a controller's name follows.
pub const CONTINUE: &str = "continue.flyball.dev/";
const NAMESPACE: &str = "kube-system";
const WINDOW: Duration = Duration::from_secs(60);
/// More than any API server takes within the window. It bounds the memory for a controller.
pub const LARGEST_BUDGET: usize = 100_000;

/// The deletions of one controller. Pure.
#[derive(Debug, Default)]
pub struct Budget {
    /// When its latest deletions were, at most as many as it may make.
    times: VecDeque<Instant>,
    held: Option<Held>,
}

/// A controller whose deletions are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub since: Timestamp,
    /// Deletions that were refused, also if it was the same one again.
    pub refused: u64,
}

/// Whether a deletion may be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// It may not; whether it is the first one.
    Held {
        since: Timestamp,
        is_first: bool,
    },
}

impl Budget {
    /// Decides about a deletion, and counts it. While the budget is lifted nothing is counted.
    pub fn admit(&mut self, limit: usize, is_lifted: bool, now: Instant, wall: Timestamp) -> Verdict {
        if is_lifted {
            *self = Self::default();
            return Verdict::Allowed;
        }
        if let Some(held) = &mut self.held {
            held.refused += 1;
            return Verdict::Held { since: held.since, is_first: false };
        }
        while self.times.front().is_some_and(|time| now.duration_since(*time) >= WINDOW) {
            self.times.pop_front();
        }
        if self.times.len() < limit {
            self.times.push_back(now);
            return Verdict::Allowed;
        }
        self.held = Some(Held { since: wall, refused: 1 });
        Verdict::Held { since: wall, is_first: true }
    }

    /// Ends the hold and resets the budget. Returns whether deletions were held.
    fn resume(&mut self) -> bool {
        let was_held = self.held.is_some();
        *self = Self::default();
        was_held
    }
}

/// Until when which controllers may delete without limit, from the annotations of a Namespace. What cannot be read is left out, and
/// returned.
pub fn lifted<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> (BTreeMap<SmolStr, Timestamp>, Vec<String>) {
    let (mut found, mut wrong) = (BTreeMap::new(), Vec::new());
    for (key, value) in annotations {
        let Some(controller) = key.strip_prefix(CONTINUE) else { continue };
        match value.parse::<Timestamp>() {
            Ok(until) => drop(found.insert(controller.into(), until)),
            Err(_) => {
                wrong.push(format!("{key}={value:?}: a time such as 2026-03-01T12:00:00Z was expected"))
            }
        }
    }
    (found, wrong)
}

/// The budgets of all controllers of a process. Cheap to clone.
#[derive(Clone)]
pub struct Guard {
    inner: Arc<Inner>,
}

struct Inner {
    limit: usize,
    clock: Clock,
    metrics: Metrics,
    events: Recorder,
    state: Mutex<State>,
    following: Mutex<Option<Subscription>>,
}

#[derive(Default)]
struct State {
    budgets: BTreeMap<&'static str, Budget>,
    lifted: BTreeMap<SmolStr, Timestamp>,
    /// The workers of controllers. Those of one that was set up again are gone.
    workers: Vec<(&'static str, Weak<dyn WorkerPool>)>,
}

/// A deletion that a controller is about to send.
pub(crate) struct Deletion<'a> {
    pub(crate) controller: &'static str,
    pub(crate) resource: &'a ResourceType,
    pub(crate) key: &'a Key,
}

impl Guard {
    /// `events` must belong to an identity that may create events in all namespaces.
    pub fn new(limit: usize, clock: Clock, metrics: Metrics, events: Recorder) -> Self {
        let limit = limit.min(LARGEST_BUDGET);
        let (state, following) = (Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { limit, clock, metrics, events, state, following }) }
    }

    /// Watches the annotations that lift holds.
    pub fn follow(&self, informers: &Informers) {
        let guard = Arc::downgrade(&self.inner);
        let follow = move |change: &flyball_cache::Change<'_, Namespace>| {
            let Some(inner) = guard.upgrade() else { return };
            let Some(namespace) =
                change.new.or(change.old).filter(|namespace| namespace.meta().name == NAMESPACE)
            else {
                return;
            };
            let annotations = change.new.map(|_| &namespace.meta().annotations);
            let (lifted, wrong) = lifted(annotations.into_iter().flat_map(|map| map.iter()));
            for problem in wrong {
                tracing::warn!(%problem, "an annotation of the Namespace {NAMESPACE} cannot be read");
            }
            Guard { inner }.lift(lifted);
        };
        let subscription = informers.get::<Namespace>().subscribe(Box::new(follow));
        *self.inner.following.lock() = Some(subscription);
    }

    /// Lets these controllers delete until these times. Those that were held continue at once.
    pub fn lift(&self, lifted: BTreeMap<SmolStr, Timestamp>) {
        let now = self.inner.clock.now();
        let mut state = self.inner.state.lock();
        state.lifted = lifted;
        let State { budgets, lifted, workers } = &mut *state;
        let mut resumed = Vec::new();
        for (controller, budget) in budgets {
            if lifted.get(*controller).is_some_and(|until| *until > now) && budget.resume() {
                tracing::warn!(controller, "deletions continue");
                self.inner.metrics.gauge(&DELETIONS_HELD, &[controller]).set(0.0);
                resumed.push(*controller);
            }
        }
        workers.retain(|(_, pool)| pool.strong_count() > 0);
        let woken: Vec<_> = workers
            .iter()
            .filter(|(name, _)| resumed.contains(name))
            .filter_map(|(_, pool)| pool.upgrade())
            .collect();
        drop(state);
        woken.iter().for_each(|pool| pool.resume());
    }

    /// Registers workers to be notified when the hold of their controller is lifted.
    pub(crate) fn register_workers(&self, controller: &'static str, pool: Weak<dyn WorkerPool>) {
        let mut state = self.inner.state.lock();
        state.workers.retain(|(_, pool)| pool.strong_count() > 0);
        state.workers.push((controller, pool));
    }

    /// The controllers that are held.
    pub fn held(&self) -> BTreeMap<&'static str, Held> {
        let state = self.inner.state.lock();
        state.budgets.iter().filter_map(|(name, budget)| Some((*name, budget.held.clone()?))).collect()
    }

    pub(crate) fn is_held(&self, controller: &str) -> bool {
        self.inner.state.lock().budgets.get(controller).is_some_and(|budget| budget.held.is_some())
    }

    /// Why this deletion must not be sent; `None` if it may be.
    pub(crate) fn refusal(&self, deletion: &Deletion<'_>) -> Option<String> {
        let Inner { limit, clock, metrics, events, .. } = &*self.inner;
        let Deletion { controller, resource, key } = deletion;
        let now = clock.now();
        let mut state = self.inner.state.lock();
        let is_lifted = state.lifted.get(*controller).is_some_and(|until| *until > now);
        let verdict =
            state.budgets.entry(controller).or_default().admit(*limit, is_lifted, Instant::now(), now);
        drop(state);
        let Verdict::Held { since, is_first } = verdict else { return None };
        metrics.counter(&DELETIONS_REFUSED, &[controller]).inc();
        if is_first {
            metrics.gauge(&DELETIONS_HELD, &[controller]).set(1.0);
            let message = format!(
                "{controller} has deleted {limit} objects within a minute; further deletions are held until an administrator \
                 allows them: kubectl annotate namespace {NAMESPACE} --overwrite {CONTINUE}{controller}=TIME (they are allowed until TIME)"
            );
            tracing::error!(controller, resource = %resource.plural, %key, limit, "deletions are held");
            let about = ObjectRef {
                kind: resource.kind.clone(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                uid: SmolStr::default(),
                api_version: resource.api_version(),
                resource_version: SmolStr::default(),
            };
            events.warning(&about, "DeletionsHeld", message);
        }
        Some(format!(
            "to be deleted, which {controller} may not since {since:.0}: it had deleted {limit} objects within a minute; the \
             annotation {CONTINUE}{controller} of the Namespace {NAMESPACE}, a time, lets it go on until then"
        ))
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("limit", &self.inner.limit).field("held", &self.held()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_api::Resource as _;

    /// Plays deletions at these seconds; `-` is a refusal, `!` the first of a hold.
    fn play(limit: usize, seconds: &[u64], lifted: std::ops::Range<u64>) -> String {
        let (mut budget, start) = (Budget::default(), Instant::now());
        let wall = Timestamp::UNIX_EPOCH;
        let verdict = |second: &u64| {
            let now = start + Duration::from_secs(*second);
            match budget.admit(limit, lifted.contains(second), now, wall) {
                Verdict::Allowed => '+',
                Verdict::Held { is_first: true, .. } => '!',
                Verdict::Held { is_first: false, .. } => '-',
            }
        };
        seconds.iter().map(verdict).collect()
    }

    type Case = (&'static str, usize, &'static [u64], std::ops::Range<u64>, &'static str);

    #[test]
    fn a_budget_holds_what_is_too_much_within_a_minute_until_it_is_lifted() {
        const NEVER: std::ops::Range<u64> = 0..0;
        #[rustfmt::skip]
        let table: [Case; 8] = [
            // case                                    limit  at second                      lifted    verdicts
            ("within the budget",                      3,     &[0, 1, 2],                    NEVER,    "+++"),
            ("one too many",                           3,     &[0, 1, 2, 3, 4],              NEVER,    "+++!-"),
            ("slowly enough for ever",                 3,     &[0, 20, 40, 60, 80, 100],     NEVER,    "++++++"),
            ("the window slides",                      3,     &[0, 50, 51, 60, 61],          NEVER,    "++++!"),
            ("a hold does not end by itself",          1,     &[0, 1, 500, 5000],            NEVER,    "+!--"),
            ("it ends when it is lifted",              1,     &[0, 1, 10, 11, 12],           10..12,   "+!+++"),
            ("after that the whole budget is there",   2,     &[0, 1, 2, 10, 20, 21, 22],    10..11,   "++!+++!"),
            ("nothing may be deleted",                 0,     &[0],                          NEVER,    "!"),
        ];
        for (case, limit, seconds, lifted, want) in table {
            assert_eq!(play(limit, seconds, lifted), want, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_shows_in_metrics_and_in_what_is_waited_for_and_ends_when_it_is_lifted() {
        let clock = Clock::virtual_from("2026-03-01T12:00:00Z".parse().unwrap());
        let (events, _unwritten) = Recorder::unconnected("test", clock);
        let metrics = Metrics::default();
        let guard = Guard::new(1, clock, metrics.clone(), events);
        let key = Key::new("shop", "web-1");
        let pod = flyball_api::pod::Pod::TYPE;
        let ask = |controller| guard.refusal(&Deletion { controller, resource: &pod, key: &key });
        assert_eq!(ask("a"), None);
        let refusal = ask("a").unwrap();
        assert!(refusal.contains("which a may not since 2026-03-01T12:00:00Z"), "{refusal}");
        assert!(refusal.contains("continue.flyball.dev/a"), "{refusal}");
        assert!(guard.is_held("a") && !guard.is_held("b"));
        assert_eq!(ask("b"), None, "each controller has a budget of its own");
        let text = metrics.text();
        assert!(text.contains("flyball_deletions_held{name=\"a\"} 1"), "{text}");
        assert!(text.contains("flyball_deletions_refused_total{name=\"a\"} 1"), "{text}");

        let until = |text: &str| BTreeMap::from([("a".into(), text.parse::<Timestamp>().unwrap())]);
        guard.lift(until("2026-03-01T11:00:00Z"));
        assert!(guard.is_held("a"), "that time has passed");
        guard.lift(until("2026-03-01T13:00:00Z"));
        assert!(!guard.is_held("a") && metrics.text().contains("flyball_deletions_held{name=\"a\"} 0"));
        assert!((0..100).all(|_| ask("a").is_none()), "it is not counted until then");
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        assert!(ask("a").is_none() && ask("a").is_some(), "then it has its budget again");
    }

    #[test]
    fn memory_is_bounded_by_the_budget() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        for _ in 0..1000 {
            let _ = budget.admit(10, false, now, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(budget.times.len(), 10);
        assert_eq!(budget.held.as_ref().map(|held| held.refused), Some(990));
    }

    #[test]
    fn annotations_name_controllers_and_times() {
        let given = [
            ("continue.flyball.dev/replicaset-controller", "2026-03-01T12:00:00Z"),
            ("continue.flyball.dev/job-controller", "tomorrow"),
            ("other/annotation", "x"),
        ];
        let (found, wrong) = lifted(given);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["replicaset-controller"]);
        assert_eq!(
            wrong,
            [
                "continue.flyball.dev/job-controller=\"tomorrow\": a time such as 2026-03-01T12:00:00Z was expected"
            ]
        );
    }
}
