//! Rounds of periodic controllers around restores of etcd.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::plan::{Operation, Plan, Write};
use crate::{Periodic, Schedule, SyncError};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Patches an object twice in each round.
#[derive(Clone)]
struct Patcher {
    cx: Arc<Context>,
    began: Instant,
    /// How long an observation takes.
    observes_for: Duration,
    /// The time of each observation, in seconds.
    observed: Arc<Mutex<Vec<u64>>>,
    /// The number of writes of each round that were made.
    written: Arc<Mutex<Vec<usize>>>,
    /// The tags of the writes of each round that were not.
    failed: Arc<Mutex<Vec<Vec<&'static str>>>>,
    restored: Arc<AtomicUsize>,
    held: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Told {
    restores: usize,
    holds: usize,
}

impl Patcher {
    async fn new(server: &Arc<Server>) -> Self {
        let cx = Arc::new(context(server));
        let things: Arc<dyn AnyInformer> = cx.informer::<Thing>();
        things.synced().await;
        cx.needs(&things);
        let (observed, written, failed, restored, held) = Default::default();
        let (began, observes_for) = (Instant::now(), Duration::ZERO);
        Self { cx, began, observes_for, observed, written, failed, restored, held }
    }

    fn start(&self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(crate::periodic::run(self.cx.clone(), "test", Schedule::every(HOUR), self.clone()))
    }
}

impl Periodic for Patcher {
    type Memory = Told;
    type Observations = ();
    type Tag = &'static str;

    async fn observe(&self, told: &Told) -> Result<(), SyncError> {
        self.restored.store(told.restores, Ordering::Relaxed);
        self.held.store(told.holds, Ordering::Relaxed);
        self.observed.lock().push(self.began.elapsed().as_secs());
        tokio::time::sleep(self.observes_for).await;
        Ok(())
    }

    fn round(told: Told, (): &()) -> (Told, Plan<&'static str>) {
        let patch = || Operation::Patch(Patch::Merge(json!({})));
        let write = || Write::of(Thing::TYPE, Key::new("ns", "t"), patch()).why("a test");
        (told, Plan::of([write().tag("first"), write().tag("second")]))
    }

    fn restored(told: &mut Told) {
        told.restores += 1;
    }

    fn held(told: &mut Told) {
        told.holds += 1;
    }

    fn finish(&self, _: &mut Told, outcome: &crate::Outcome<&'static str>) -> Option<Duration> {
        self.written.lock().push(outcome.written().count());
        self.failed.lock().push(outcome.failures.iter().filter_map(|failure| failure.tag).collect());
        None
    }
}

fn answering(version: &str) -> Arc<Server> {
    Server::answering(200, Server::object(version, json!(["example.com/mine"])))
}

fn go_down(server: &Server) {
    server.is_down.store(true, Ordering::Relaxed);
    server.watches.lock().clear();
}

#[tokio::test(start_paused = true)]
async fn no_round_begins_before_the_caches_know_whether_etcd_was_restored() {
    let server = answering("5");
    let patcher = Patcher::new(&server).await;
    go_down(&server);
    tokio::time::sleep(SECOND).await;
    let rounds = patcher.start();
    tokio::time::sleep(100 * SECOND).await;
    assert!(patcher.observed.lock().is_empty(), "{:?}", patcher.observed.lock());
    server.is_down.store(false, Ordering::Relaxed);
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(*patcher.written.lock(), [2]);
    assert_eq!(patcher.held.load(Ordering::Relaxed), 1, "the memory is told");
    rounds.abort();
}

#[tokio::test(start_paused = true)]
async fn observations_from_before_a_lost_watch_are_discarded() {
    let server = answering("5");
    let patcher = Patcher { observes_for: 10 * SECOND, ..Patcher::new(&server).await };
    let rounds = patcher.start();
    tokio::time::sleep(5 * SECOND).await;
    go_down(&server);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!((patcher.observed.lock().len(), patcher.written.lock().len()), (1, 0), "it waits");
    server.is_down.store(false, Ordering::Relaxed);
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!((patcher.observed.lock().len(), patcher.written.lock().clone()), (2, vec![2]));
    assert_eq!(patcher.held.load(Ordering::Relaxed), 1, "the memory is told");
    rounds.abort();
}

#[tokio::test(start_paused = true)]
async fn a_round_ends_when_a_write_shows_a_restore_and_is_repeated() {
    // The cache has reached version 6, and holds the object in version 5.
    let server = answering("3");
    let patcher = Patcher::new(&server).await;
    let rounds = patcher.start();
    tokio::time::sleep(10 * SECOND).await;
    let written = patcher.written.lock().clone();
    assert_eq!(written.first(), Some(&1), "the second write was planned on the old state: {written:?}");
    assert_eq!(
        patcher.failed.lock().first(),
        Some(&vec!["second"]),
        "the controller is told which was not made"
    );
    assert!(written.len() > 1, "the round is not repeated in an hour, but now: {written:?}");
    assert!(patcher.restored.load(Ordering::Relaxed) > 0, "the memory is told");
    rounds.abort();
}

#[tokio::test(start_paused = true)]
async fn a_round_that_a_lost_watch_cuts_short_is_repeated() {
    let server = answering("5");
    let patcher = Patcher::new(&server).await;
    server.goes_down_at_write.store(true, Ordering::Relaxed);
    let rounds = patcher.start();
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(
        (patcher.written.lock().clone(), patcher.failed.lock().clone()),
        (vec![1], vec![vec!["second"]])
    );
    server.is_down.store(false, Ordering::Relaxed);
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(
        *patcher.written.lock(),
        [1, 2],
        "not in an hour, but once it is clear that nothing was restored"
    );
    assert_eq!((patcher.restored.load(Ordering::Relaxed), patcher.held.load(Ordering::Relaxed)), (0, 1));
    rounds.abort();
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_others_detect_repeats_the_round() {
    let server = answering("5");
    let patcher = Patcher::new(&server).await;
    let rounds = patcher.start();
    tokio::time::sleep(60 * SECOND).await;
    let things = patcher.cx.informer::<Thing>();
    things.report_restore(patcher.cx.informers.era());
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(*patcher.observed.lock(), [0, 60]);
    assert_eq!((relists(&patcher.cx), patcher.restored.load(Ordering::Relaxed)), (1, 1));
    rounds.abort();
}

/// The restore itself cannot be detected if the server has since written as many versions as it lost.
#[tokio::test(start_paused = true)]
async fn a_round_is_repeated_if_an_informer_reconnects_before_the_cache_shows_its_writes() {
    for (version, want) in [("5", vec![0]), ("7", vec![0, 60])] {
        let server = answering(version);
        let patcher = Patcher::new(&server).await;
        let rounds = patcher.start();
        tokio::time::sleep(60 * SECOND).await;
        server.watches.lock().clear();
        tokio::time::sleep(60 * SECOND).await;
        let observed = patcher.observed.lock().clone();
        assert_eq!(observed, want, "the cache has reached version 6, the writes have {version}");
        rounds.abort();
    }
}
