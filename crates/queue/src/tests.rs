use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn queue() -> Queue<&'static str> {
    Queue::default()
}

/// Whether a worker would get a key without waiting for time to pass.
async fn ready<K: QueueKey>(queue: &Queue<K>) -> Option<Taken<K>> {
    tokio::select! {
        biased;
        taken = queue.next() => taken,
        () = tokio::task::yield_now() => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_twice_is_processed_once() {
    let queue = queue();
    queue.add("a", Priority::Change);
    queue.add("a", Priority::Change);
    drop(queue.next().await);
    assert!(ready(&queue).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_processed_comes_back_only_afterwards() {
    let queue = queue();
    queue.add("a", Priority::Change);
    let first = queue.next().await.unwrap();
    queue.add("a", Priority::Change);
    assert!(ready(&queue).await.is_none());
    drop(first);
    assert_eq!(*ready(&queue).await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_being_processed_can_be_added_once_more() {
    let queue = queue();
    for key in ["done", "running", "waiting"] {
        queue.add(key, Priority::Change);
    }
    drop(queue.next().await);
    let taken = queue.next().await.unwrap();
    queue.add_running(Priority::Change);
    assert_eq!(ready(&queue).await.as_deref(), Some(&"waiting"));
    assert!(ready(&queue).await.is_none());
    drop(taken);
    assert_eq!(ready(&queue).await.as_deref(), Some(&"running"));
    assert!(ready(&queue).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn changes_overtake_the_sweep_and_promote_keys_of_it() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key, Priority::Sweep);
    }
    queue.add("d", Priority::Change);
    queue.add("c", Priority::Change);
    let mut order = vec![];
    while let Some(taken) = ready(&queue).await {
        order.push(*taken);
    }
    assert_eq!(order, ["d", "c", "a", "b"]);
    assert_eq!(queue.depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn lasting_changes_leave_one_turn_in_eight_to_the_sweep() {
    let queue: Queue<u32> = Queue::default();
    for key in 1000..1003 {
        queue.add(key, Priority::Sweep);
    }
    let mut turns = vec![];
    for turn in 0..40 {
        // There is always another change.
        queue.add(turn, Priority::Change);
        queue.add(turn + 100, Priority::Change);
        if *queue.next().await.unwrap() >= 1000 {
            turns.push(turn);
        }
    }
    assert_eq!(turns, [7, 15, 23]);
}

#[tokio::test(start_paused = true)]
async fn idle_workers_share_one_timer_which_is_never_lost() {
    let queue = queue();
    queue.add_after("late", MS(1000));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let queue = queue.clone();
        workers.spawn(async move { queue.next().await.map(|taken| *taken) });
    }
    tokio::time::sleep(MS(1)).await;
    assert_eq!(queue.shared.state.lock().set_alarm(), None, "one of them wakes up in time");
    // The worker with the timer gets a key: another one sets the timer.
    let start = Instant::now();
    for now in ["a", "b", "c", "d"] {
        queue.add(now, Priority::Change);
        assert_eq!(workers.join_next().await.unwrap().unwrap(), Some(now));
    }
    assert_eq!(workers.join_next().await.unwrap().unwrap(), Some("late"));
    assert_eq!(start.elapsed(), MS(999));
}

#[tokio::test(start_paused = true)]
async fn the_earliest_of_several_delays_counts() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", MS(500));
    queue.add_after("a", MS(100));
    queue.add_after("a", MS(900));
    drop(queue.next().await);
    assert_eq!(start.elapsed(), MS(100));
    assert_eq!(queue.delayed(), 0);
    tokio::time::sleep(MS(2000)).await;
    assert!(ready(&queue).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn obsolete_delays_do_not_accumulate() {
    let queue = queue();
    for _ in 0..10_000 {
        queue.add_after("a", Duration::from_secs(3600));
        queue.add_after("a", MS(1));
        drop(queue.next().await);
    }
    assert!(queue.shared.state.lock().alarms() < 200);
}

#[tokio::test(start_paused = true)]
async fn memory_is_freed_after_a_burst_of_keys() {
    let queue: Queue<u32> = Queue::default();
    for key in 0..10_000 {
        queue.add(key, Priority::Sweep);
    }
    for _ in 0..10_000 {
        drop(queue.next().await);
    }
    assert!(queue.shared.state.lock().room() < 500);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_wakes_a_worker_that_sleeps_for_a_later_one() {
    let queue = queue();
    queue.add_after("late", MS(10_000));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { *queue.next().await.unwrap() }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", MS(10));
    assert_eq!(worker.await.unwrap(), "soon");
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_double_the_delay_until_forgotten() {
    let queue = queue();
    for want in [5, 10, 20, 40] {
        let start = Instant::now();
        queue.retry("a");
        drop(queue.next().await);
        assert_eq!(start.elapsed(), MS(want));
    }
    assert_eq!(queue.failures(&"a"), 4);
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
    assert_eq!(queue.shared.state.lock().running(), (0, 0), "nothing is remembered of a settled key");
}

#[test]
fn a_key_waits_at_most_the_longest_delay() {
    let backoff = Backoff::default();
    #[rustfmt::skip]
    let table = [(0, 5), (1, 10), (10, 5120), (17, 655_360), (18, 1_000_000), (63, 1_000_000), (u32::MAX, 1_000_000)];
    for (failures, want) in table {
        assert_eq!(backoff.delay(failures), MS(want), "after {failures} failures");
    }
}

#[tokio::test(start_paused = true)]
async fn many_failing_keys_share_one_rate() {
    let queue = Queue::<u32>::default();
    let start = Instant::now();
    for key in 0..150 {
        queue.retry(key);
    }
    for _ in 0..150 {
        drop(queue.next().await);
    }
    assert_eq!(start.elapsed().as_secs(), 5, "a hundred at once, the other fifty at ten a second");
}

#[tokio::test(start_paused = true)]
async fn closing_releases_every_waiting_worker() {
    let queue = queue();
    let workers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_gives_its_key_back() {
    let queue = queue();
    queue.add("a", Priority::Change);
    let worker = queue.clone();
    let outcome = tokio::spawn(async move {
        let taken = worker.next().await.unwrap();
        worker.retry(*taken);
        panic!("bug");
    });
    assert!(outcome.await.is_err());
    assert_eq!(*queue.next().await.unwrap(), "a");
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8, bool),
    After(u8, u16),
    Retry(u8),
    Take,
    Done(usize),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..8u8, any::<bool>()).prop_map(|(key, sweep)| Step::Add(key, sweep)),
        (0..8u8, 0..500u16).prop_map(|(key, ms)| Step::After(key, ms)),
        (0..8u8).prop_map(Step::Retry),
        Just(Step::Take),
        any::<usize>().prop_map(Step::Done),
        (0..300u16).prop_map(Step::Wait),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_look_shows_what_waits_runs_and_fails_and_which_key_does_so_longest() {
    let queue = Queue::<&str>::default();
    queue.add("first", Priority::Sweep);
    tokio::time::advance(MS(10)).await;
    queue.add("second", Priority::Change);
    queue.add_after("later", MS(1000));
    let taken = queue.next().await.unwrap();
    assert_eq!(*taken, "second");
    for _ in 0..3 {
        queue.retry("bad");
    }
    queue.retry("worse once");
    tokio::time::advance(MS(30)).await;
    queue.add("second", Priority::Change);
    let look = queue.look();
    assert_eq!((look.ready, look.delayed, look.running, look.failing), (1, 3, 1, 2));
    assert_eq!(look.oldest, Some(("first", MS(40))), "a key that is being processed does not wait");
    assert_eq!(look.longest, Some(("second", MS(30))));
    assert_eq!(look.worst, Some(("bad", 3)));
}

proptest! {
    /// No key is processed twice at once, and no added key is lost.
    #[test]
    fn every_request_is_answered_and_no_key_is_processed_twice_at_once(steps in proptest::collection::vec(step(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = Queue::<u8>::default();
            let mut processed: Vec<Taken<u8>> = vec![];
            let mut wanted = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Add(key, sweep) => {
                        queue.add(key, if sweep { Priority::Sweep } else { Priority::Change });
                        wanted.insert(key);
                    }
                    Step::After(key, ms) => {
                        queue.add_after(key, MS(ms.into()));
                        wanted.insert(key);
                    }
                    Step::Retry(key) => {
                        queue.retry(key);
                        wanted.insert(key);
                    }
                    Step::Take => {
                        if let Some(taken) = ready(&queue).await {
                            assert!(processed.iter().all(|other| **other != *taken));
                            wanted.remove(&*taken);
                            processed.push(taken);
                        }
                    }
                    Step::Done(n) if !processed.is_empty() => drop(processed.swap_remove(n % processed.len())),
                    Step::Done(_) => {}
                    Step::Wait(ms) => tokio::time::advance(MS(ms.into())).await,
                }
            }
            processed.clear();
            while !wanted.is_empty() {
                let taken = tokio::time::timeout(Duration::from_secs(5000), queue.next()).await.expect("lost").unwrap();
                wanted.remove(&*taken);
            }
        });
    }
}
