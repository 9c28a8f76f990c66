//! Controllers that work in rounds instead of by key: observe, decide, execute, pause.
//!
//! Pod garbage collection, the cleaners and the node monitor look at all objects at a fixed interval. They differ in what
//! they decide; the loop around that is here, once.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::Key;
use flyball_cache::Subscription;
use flyball_client::Chain;
use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::barrier::Barrier;
use crate::context::Context;
use crate::error::SyncError;
use crate::events::Recorder;
use crate::plan::{Executed, Executor, Failure, Outcome, Plan};
use crate::tasks::Tasks;

/// A controller that decides in rounds. [`Tasks::periodic`] runs it.
pub trait Periodic: Send + Sync + 'static {
    /// State that is kept from round to round.
    type Memory: Default + Send;
    /// What a round decides on: a snapshot of the caches, the time, live reads.
    type Observations: Send;
    /// The tag by which the controller finds a write in the outcome.
    type Tag: Send;

    /// Collects what the next round decides on.
    ///
    /// # Errors
    /// Something could not be read. The round is skipped.
    fn observe(
        &self,
        memory: &Self::Memory,
    ) -> impl Future<Output = Result<Self::Observations, SyncError>> + Send;

    /// Decides. Pure: the same memory and observations give the same plan. `Plan::requeue` overrides the pause before the
    /// next round. A round concerns many objects, so a status is written by an effect, not by `Plan::status`.
    fn round(memory: Self::Memory, observations: &Self::Observations) -> (Self::Memory, Plan<Self::Tag>);

    /// Checks a plan against what it was decided on, in simulations only (`invariants.rs` of the controller).
    ///
    /// # Errors
    /// The invariants that are broken, in words.
    fn check(_observations: &Self::Observations, _plan: &Plan<Self::Tag>) -> Result<(), String> {
        Ok(())
    }

    /// Passes on what the round has decided besides writes, before they are made: metrics, queues of other tasks.
    fn publish(&self, _memory: &mut Self::Memory) {}

    /// Called before the next round when etcd was restored: writes of earlier rounds may have been undone, so what the memory
    /// says about them may not hold.
    fn restored(_memory: &mut Self::Memory) {}

    /// Called before a round that had to wait because a cache had lost its watch: what happened meanwhile may not have been seen.
    fn held(_memory: &mut Self::Memory) {}

    /// The recorder for the events of its plans.
    fn events<'a>(&'a self, cx: &'a Context) -> &'a Recorder {
        &cx.events
    }

    /// Updates the memory, and metrics, with the outcome of the plan. Returns a shorter pause before the next round, if the outcome
    /// requires it.
    fn finish(&self, _memory: &mut Self::Memory, _outcome: &Outcome<Self::Tag>) -> Option<Duration> {
        None
    }
}

/// When the rounds of a periodic controller take place.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    first: Duration,
    pause: Duration,
    after_failure: Duration,
    from_start: bool,
}

impl Schedule {
    /// The first round at once, then one each time `pause` has passed since the end of the last.
    pub fn every(pause: Duration) -> Self {
        Self { first: Duration::ZERO, pause, after_failure: pause, from_start: false }
    }

    /// The first round only after the pause.
    pub fn pausing_first(self) -> Self {
        Self { first: self.pause, ..self }
    }

    /// Counts the pause from the start of a round, so that rounds begin at a fixed rate unless they take longer.
    pub fn from_start(self) -> Self {
        Self { from_start: true, ..self }
    }

    /// Another pause after a round that could not observe.
    pub fn after_failure(self, pause: Duration) -> Self {
        Self { after_failure: pause, ..self }
    }
}

impl Tasks {
    /// Runs a periodic controller beside the workers, once the caches are filled.
    pub fn periodic<P: Periodic>(&mut self, name: &'static str, schedule: Schedule, controller: P) {
        let cx = self.context();
        self.spawn(name, run(cx, name, schedule, controller));
    }
}

/// As for keys, no round decides on caches that may be of the times before and after a restore of etcd, and writes that a restore
/// may have undone are planned again: the next round does not wait for its time then.
pub(crate) async fn run<P: Periodic>(
    cx: Arc<Context>,
    name: &'static str,
    schedule: Schedule,
    controller: P,
) {
    let mut memory = P::Memory::default();
    let rounds = Rounds::new(&cx, name);
    let mut era = cx.informers.era();
    tokio::time::sleep(schedule.first).await;
    let mut is_held = false;
    loop {
        is_held |= !cx.barrier.is_consistent();
        cx.barrier.consistent().await;
        if std::mem::take(&mut is_held) {
            P::held(&mut memory);
        }
        if std::mem::replace(&mut era, cx.informers.era()) != cx.informers.era() {
            P::restored(&mut memory);
        }
        rounds.begin();
        let began = Instant::now();
        let observed = controller.observe(&memory).await;
        if observed.is_ok() && (cx.informers.era() != era || !cx.barrier.is_consistent()) {
            tracing::debug!(task = name, "etcd may have been restored; observing again");
            is_held = true;
            continue;
        }
        let pause = match observed {
            Ok(observations) => {
                let (remembered, plan) = P::round(memory, &observations);
                memory = remembered;
                cx.judge(|| P::check(&observations, &plan));
                let pause = plan.requeue.unwrap_or(schedule.pause);
                controller.publish(&mut memory);
                let executor = Executor::for_round(&cx, &rounds.key, era).events(controller.events(&cx));
                let Executed { outcome, status, .. } = executor.run(plan).await;
                outcome.failures.iter().for_each(|failure| log_failure(name, failure));
                status.failures.iter().for_each(|failure| log_failure(name, failure));
                let shorter = controller.finish(&mut memory, &outcome);
                if executor.was_outdated() {
                    tracing::debug!(task = name, "etcd may have been restored; repeating the round");
                    is_held = true;
                    continue;
                }
                shorter.map_or(pause, |shorter| shorter.min(pause))
            }
            Err(error) => {
                tracing::warn!(task = name, error = %Chain(&error), again_in = ?schedule.after_failure, "a round was skipped");
                schedule.after_failure
            }
        };
        let due = if schedule.from_start { began } else { Instant::now() } + pause;
        tokio::select! {
            biased;
            () = rounds.undone(&cx, era) => {}
            () = tokio::time::sleep_until(due) => {}
        }
    }
}

fn log_failure<T>(task: &str, failure: &Failure<T>) {
    if !failure.is_expected {
        let Failure { doing, message, .. } = failure;
        tracing::warn!(task, %doing, error = %message, "a write failed; the next round tries again");
    }
}

/// What is known of the writes of the last round.
struct Rounds {
    /// Under which the barrier knows them.
    key: Key,
    /// Notified when an informer is about to connect: writes that no cache has shown may have been undone, undetected.
    connected: Arc<Notify>,
    barrier: Barrier,
    _subscription: Subscription,
}

impl Rounds {
    fn new(cx: &Context, name: &'static str) -> Self {
        let (key, connected) = (Key::cluster(name), Arc::new(Notify::new()));
        let subscription = cx.informers.on_connect({
            let (barrier, key, connected) = (cx.barrier.clone(), key.clone(), connected.clone());
            move || {
                if barrier.unseen(&key).is_some() {
                    connected.notify_one();
                }
            }
        });
        Self { key, connected, barrier: cx.barrier.clone(), _subscription: subscription }
    }

    /// Forgets the writes of earlier rounds: this one looks at their objects again.
    fn begin(&self) {
        self.barrier.forget(&self.key);
        let _forgotten = self.connected.notified().now_or_never();
    }

    /// Completes when a restore, since `era`, has or may have undone writes of the last round.
    async fn undone(&self, cx: &Context, era: u64) {
        tokio::select! {
            biased;
            () = cx.informers.restored_since(era) => {}
            () = self.connected.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use flyball_api::ResourceType;
    use flyball_api::pod::Pod;
    use flyball_client::DeleteOptions;
    use parking_lot::Mutex;

    use super::*;
    use crate::events::ObjectRef;
    use crate::judge::Judge;
    use crate::plan::{Event, Operation, Waiting, Write};
    use crate::scripted::{Server, context};

    const THING: ResourceType = ResourceType::new("example.com", "v1", "things", "Thing", true);
    const HOUR: Duration = Duration::from_secs(3600);

    /// Deletes one object per round. The third observation fails; the fourth round plans the next one after a minute.
    #[derive(Clone)]
    struct Deleter {
        started: Instant,
        observed: Arc<Mutex<Vec<u64>>>,
        refused: Arc<Mutex<Vec<String>>>,
    }

    impl Periodic for Deleter {
        type Memory = usize;
        type Observations = usize;
        type Tag = &'static str;

        async fn observe(&self, _: &usize) -> Result<usize, SyncError> {
            let mut observed = self.observed.lock();
            observed.push(self.started.elapsed().as_secs());
            match observed.len() {
                3 => Err(SyncError::other("reading", "unreadable")),
                n => Ok(n),
            }
        }

        fn round(rounds: usize, observation: &usize) -> (usize, Plan<&'static str>) {
            let key = Key::new("ns", format!("{rounds}").as_str());
            let delete = Operation::Delete(DeleteOptions::default());
            let plan = Plan::of([Write::of(THING, key, delete).why("a test").tag("deletion")]);
            (rounds + 1, plan.again_after((*observation == 4).then_some(Duration::from_secs(60))))
        }

        fn finish(&self, _: &mut usize, outcome: &Outcome<&'static str>) -> Option<Duration> {
            let refused = outcome.failures.iter().filter_map(|failure| failure.tag).map(str::to_owned);
            self.refused.lock().extend(refused);
            outcome.failure().map(|_| Duration::from_secs(5))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_follow_the_schedule_and_remember() {
        let (server, cx, _sink) = context(|line| (line == "DELETE 1").then_some((403, "Forbidden")));
        let deleter = Deleter { started: Instant::now(), observed: Arc::default(), refused: Arc::default() };
        let schedule = Schedule::every(HOUR).pausing_first().after_failure(Duration::from_secs(300));
        let rounds = run(Arc::new(cx), "test", schedule, deleter.clone());
        let _ = tokio::time::timeout(3 * HOUR, rounds).await;
        // After an hour; again after an hour; 5 s after a failed write; 5 min after the failed observation; a minute, as planned.
        assert_eq!(*deleter.observed.lock(), [3600, 7200, 7205, 7505, 7565]);
        assert_eq!(*server.seen.lock(), ["DELETE 0", "DELETE 1", "DELETE 2", "DELETE 3"]);
        assert_eq!(*deleter.refused.lock(), ["deletion"]);
    }

    /// Deletes one object per round, with an event. Its memory is the number of rounds.
    struct Announcer {
        events: Recorder,
        server: Arc<Server>,
        /// The memory and the number of requests so far, at each call of `publish`.
        published: Arc<Mutex<Vec<(usize, usize)>>>,
    }

    impl Periodic for Announcer {
        type Memory = usize;
        type Observations = ();
        type Tag = ();

        async fn observe(&self, _: &usize) -> Result<(), SyncError> {
            Ok(())
        }

        fn round(rounds: usize, (): &()) -> (usize, Plan) {
            let meta = serde_json::from_value(serde_json::json!({"name": "a", "namespace": "ns"}));
            let about = ObjectRef::from_meta("v1", "Thing", &meta.unwrap());
            let delete = Operation::Delete(DeleteOptions::default());
            let delete = Write::of(THING, Key::new("ns", "a"), delete).why("a test");
            (rounds + 1, Plan::of([delete.on_success(Event::normal("Deleted", "it is gone").about(about))]))
        }

        fn publish(&self, memory: &mut usize) {
            self.published.lock().push((*memory, self.server.seen.lock().len()));
            *memory += 10;
        }

        fn events<'a>(&'a self, _: &'a Context) -> &'a Recorder {
            &self.events
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_is_published_before_its_writes_and_its_events_have_its_source() {
        let (server, cx, sink) = context(|_| None);
        let published = Arc::<Mutex<Vec<(usize, usize)>>>::default();
        let announcer = Announcer {
            events: cx.events.with_source("announcer"),
            server: server.clone(),
            published: published.clone(),
        };
        let rounds = run(Arc::new(cx), "test", Schedule::every(HOUR), announcer);
        let _ = tokio::time::timeout(HOUR + Duration::from_secs(1), rounds).await;
        // What `publish` leaves in the memory is there in the next round.
        assert_eq!(*published.lock(), [(1, 0), (12, 1)]);
        sink.await;
        let events = server.events.lock();
        assert_eq!(events[0]["source"]["component"], "announcer");
        assert_eq!(events[1]["count"], 2, "the event of the second round is counted");
    }

    fn pod(n: usize) -> Waiting {
        Waiting::on::<Pod>(&Key::new("ns", format!("{n}")), "to stop")
    }

    /// Waits for as many pods as it has had rounds. Its invariant does not hold in the second round.
    struct Waiter;

    impl Periodic for Waiter {
        type Memory = usize;
        type Observations = usize;
        type Tag = ();

        async fn observe(&self, rounds: &usize) -> Result<usize, SyncError> {
            Ok(*rounds)
        }

        fn round(rounds: usize, _: &usize) -> (usize, Plan) {
            (rounds + 1, Plan::default().waiting_for((0..rounds).map(pod)))
        }

        fn check(observation: &usize, plan: &Plan) -> Result<(), String> {
            match *observation == 1 {
                true => Err(format!("{} pod is left", plan.waiting.len())),
                false => Ok(()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_plan_is_checked_and_shows_what_it_waits_for() {
        let (_, cx, _sink) = context(|_| None);
        let judge = Arc::<Judge>::default();
        let cx = Arc::new(cx.judged_by(judge.clone()));
        let rounds = run(cx.clone(), "test", Schedule::every(HOUR), Waiter);
        let _ = tokio::time::timeout(2 * HOUR + Duration::from_secs(1), rounds).await;
        assert_eq!(judge.checked(), 3);
        assert_eq!(judge.broken(), [("test", "1 pod is left".to_owned())]);
        assert_eq!(cx.waiting(&Key::cluster("test")), [pod(0), pod(1)]);
    }

    /// Takes 20 seconds to observe.
    struct Slow(Instant, Arc<Mutex<Vec<u64>>>);

    impl Periodic for Slow {
        type Memory = ();
        type Observations = ();
        type Tag = ();

        async fn observe(&self, (): &()) -> Result<(), SyncError> {
            self.1.lock().push(self.0.elapsed().as_secs());
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(())
        }

        fn round((): (), (): &()) -> ((), Plan) {
            Default::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_is_counted_from_the_end_or_from_the_start_of_a_round() {
        let minute = Schedule::every(Duration::from_secs(60));
        for (schedule, want) in [(minute, [0, 80, 160]), (minute.from_start(), [0, 60, 120])] {
            let (_, cx, _sink) = context(|_| None);
            let began = Arc::<Mutex<Vec<u64>>>::default();
            let rounds = run(Arc::new(cx), "test", schedule, Slow(Instant::now(), began.clone()));
            let _ = tokio::time::timeout(Duration::from_secs(165), rounds).await;
            assert_eq!(*began.lock(), want);
        }
    }
}
