//! Keys wait while a cache does not know whether etcd was restored, or what a former leader wrote; but not for long.

use super::*;

#[tokio::test(start_paused = true)]
async fn keys_wait_while_a_cache_of_their_controller_cannot_know_of_a_restore() {
    let server = Server::answering(0, Value::Null);
    let cx = context(&server);
    let things: Arc<dyn AnyInformer> = cx.informer::<Thing>();
    things.synced().await;
    let key = Key::new("ns", "owner");
    let go_down = async || {
        server.is_down.store(true, Ordering::Relaxed);
        server.watches.lock().clear();
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    go_down().await;
    assert!(!cx.barrier.is_raised(&key), "the controller does not need this cache");
    cx.barrier.needs(&things);
    assert!(cx.barrier.is_raised(&key), "the watch is lost");
    server.is_down.store(false, Ordering::Relaxed);
    timeout(PATIENCE / 2, cx.barrier.lowered(&key)).await.expect("the server is as it was");
    assert!(!cx.barrier.is_raised(&key));
    go_down().await;
    assert!(timeout(PATIENCE * 2, cx.barrier.lowered(&key)).await.is_err(), "nothing could be written");
    server.is_down.store(false, Ordering::Relaxed);
    server.is_forbidden.store(true, Ordering::Relaxed);
    assert!(timeout(PATIENCE / 2, cx.barrier.lowered(&key)).await.is_err(), "it may be allowed soon");
    timeout(PATIENCE * 3, cx.barrier.lowered(&key)).await.expect("it is ignored after a while");
    assert!(!cx.barrier.is_raised(&key));
}

/// The share of an hour in which keys wait while the cache is like this.
async fn waits_in_an_hour(server: &Server, cx: &Context) -> Duration {
    const STEP: Duration = Duration::from_millis(100);
    let mut waits = Duration::ZERO;
    for n in 0..36_000 {
        // A watch that lives for a minute.
        if n % 600 == 0 {
            server.watches.lock().clear();
        }
        waits += if cx.barrier.is_consistent() { Duration::ZERO } else { STEP };
        tokio::time::sleep(STEP).await;
    }
    waits
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_keeps_failing_does_not_hold_up_controllers_again_and_again() {
    #[rustfmt::skip]
    let table = [
        // case                                    lists fail  watches fail  most
        ("watches that end early",                 false,      false,        Duration::from_secs(1)),
        ("a dead API, or rights that were lost",   true,       true,         PATIENCE),
        ("an API that can be listed, not watched", false,      true,         PATIENCE * 2),
    ];
    for (case, lists_fail, watches_fail, most) in table {
        let server = Server::answering(0, Value::Null);
        let cx = context(&server);
        let things: Arc<dyn AnyInformer> = cx.informer::<Thing>();
        things.synced().await;
        cx.barrier.needs(&things);
        server.is_forbidden.store(lists_fail, Ordering::Relaxed);
        server.is_unwatchable.store(watches_fail, Ordering::Relaxed);
        let waits = waits_in_an_hour(&server, &cx).await;
        assert!(waits <= most + Duration::from_secs(1), "{case}: {waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_written_does_not_wait_for_a_watch_that_cannot_be_opened() {
    let server = Server::answering(200, Server::object("7", json!(["example.com/mine"])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    server.is_unwatchable.store(true, Ordering::Relaxed);
    server.watches.lock().clear();
    let owner = Key::new("ns", "owner");
    let patch = Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &Key::new("ns", "t"), None, patch, "it changes").await.unwrap();
    assert!(cx.barrier.is_raised(&owner));
    timeout(PATIENCE * 3, cx.barrier.lowered(&owner)).await.expect("a list shows the write");
}

/// The garbage collector needs the caches of all resources, those of broken definitions included.
#[tokio::test(start_paused = true)]
async fn many_resources_that_fail_one_after_the_other_do_not_stop_a_controller_for_half_a_minute_each() {
    let first = Server::answering(0, Value::Null);
    let cx = context(&first);
    let part = |n: usize| Filter { labels: Some(format!("part=x{n}x")), ..Filter::default() };
    let caches: Vec<Arc<dyn AnyInformer>> =
        (0..20).map(|n| cx.informers.filtered::<Thing>(part(n)) as Arc<dyn AnyInformer>).collect();
    for cache in &caches {
        cache.synced().await;
        cx.needs(cache);
    }
    let mut waits = vec![];
    for n in 0..caches.len() {
        // The watches of the others continue, in the order in which they were opened.
        first.refused_parts.lock().push(format!("x{n}x"));
        first.watches.lock().remove(0);
        tokio::time::sleep(Duration::from_millis(10)).await;
        let began = tokio::time::Instant::now();
        assert!(!cx.barrier.is_consistent(), "each has time for its check");
        cx.barrier.consistent().await;
        waits.push(began.elapsed());
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(waits[0] > PATIENCE / 2, "{waits:?}");
    assert!(waits[1..].iter().all(|wait| *wait <= CHECK + LOOK_AGAIN), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_cannot_be_listed_does_not_hide_others_that_are_left_behind() {
    let server = Server::answering(0, Value::Null);
    let cx = context(&server);
    let part = |n: usize| Filter { labels: Some(format!("part=x{n}x")), ..Filter::default() };
    let caches = [0, 1].map(|n| cx.informers.filtered::<Thing>(part(n)));
    for cache in &caches {
        cache.synced().await;
    }
    server.refused_parts.lock().extend(["x0x".to_owned(), "x1x".to_owned()]);
    server.watches.lock().remove(0);
    tokio::time::sleep(PATIENCE * 2).await;
    caches[1].report_restore(cx.informers.era());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(is_stuck(&*caches[0]) && !is_stuck(&*caches[1]));
    assert!(cx.barrier.left_behind().is_some(), "the second cache is of the time before the restore");
    tokio::time::sleep(PATIENCE * 2).await;
    assert!(cx.barrier.left_behind().is_none(), "nothing waits for ever");
    server.refused_parts.lock().clear();
    tokio::time::sleep(PATIENCE * 3).await;
    assert!(cx.informers.left_behind().is_empty());
}

/// An aggregated API whose backend does not respond, for example.
#[tokio::test(start_paused = true)]
async fn after_a_restore_a_server_that_is_silent_about_one_resource_holds_up_only_those_who_need_it() {
    let server = Server::answering(0, Value::Null);
    let cx = context(&server);
    let part = |n: usize| Filter { labels: Some(format!("part=x{n}x")), ..Filter::default() };
    let caches = [0, 1].map(|n| cx.informers.filtered::<Thing>(part(n)) as Arc<dyn AnyInformer>);
    for cache in &caches {
        cache.synced().await;
    }
    cx.needs(&caches[0]);
    server.silent_parts.lock().push("x1x".to_owned());
    let restored = tokio::time::Instant::now();
    caches[0].report_restore(cx.informers.era());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!cx.barrier.is_consistent(), "no controller works while a cache may just be late");
    cx.barrier.consistent().await;
    assert!(restored.elapsed() <= PATIENCE + 2 * LOOK_AGAIN, "{:?}", restored.elapsed());
    assert!(!is_stuck(&*caches[1]), "no request has failed yet");
    cx.needs(&caches[1]);
    assert!(!cx.barrier.is_consistent(), "who needs the cache waits for longer");
}

/// After a takeover, a cache that was found by a preparation (such as the collector's) must show what the former leader wrote.
#[tokio::test(start_paused = true)]
async fn a_controller_starts_once_the_caches_that_its_preparation_found_are_current() {
    for becomes_current in [true, false] {
        // The server has version 9, and the watch has shown 6.
        let server = Server::answering(0, Value::Null);
        let cx = Arc::new(context(&server));
        let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
        let things: Arc<dyn AnyInformer> = cx.informer::<Thing>();
        tasks.prepare({
            let (cx, things) = (cx.clone(), things.clone());
            async move {
                things.synced().await;
                cx.needs(&things);
            }
        });
        let starting = tokio::spawn(tasks.start(Some(tokio::time::Instant::now())));
        tokio::time::sleep(PATIENCE / 3).await;
        assert!(!starting.is_finished(), "its cache lags behind");
        if becomes_current {
            server.version.store(9, Ordering::Relaxed);
        }
        timeout(PATIENCE, starting).await.expect("it waits for a while only").unwrap();
        assert_eq!(things.version_reached() >= ResourceVersion(9), becomes_current);
    }
}

/// A broken definition must not delay every takeover: its cache has failed for long while this process stood by.
#[tokio::test(start_paused = true)]
async fn a_takeover_does_not_wait_for_a_cache_that_has_failed_for_long() {
    let server = Server::answering(0, Value::Null);
    let cx = Arc::new(context(&server));
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let things: Arc<dyn AnyInformer> = cx.informer::<Thing>();
    let (needed, needing) = (things.clone(), cx.clone());
    tasks.prepare(async move {
        needed.synced().await;
        needing.needs(&needed);
    });
    things.synced().await;
    server.is_forbidden.store(true, Ordering::Relaxed);
    server.watches.lock().clear();
    tokio::time::sleep(PATIENCE * 3).await;
    let won = tokio::time::Instant::now();
    timeout(PATIENCE / 10, tasks.start(Some(won))).await.expect("it starts at once");
    assert!(things.version_reached() < ResourceVersion(9), "its cache still lags behind");
}

/// The rights to read a resource, or the resource itself, may go while a process stands by.
#[tokio::test(start_paused = true)]
async fn a_controller_whose_cache_cannot_be_listed_any_more_starts_all_the_same() {
    let server = Server::answering(0, Value::Null);
    let cx = Arc::new(context(&server));
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let things = cx.informer::<Thing>();
    tasks.needs(&things);
    things.synced().await;
    server.is_forbidden.store(true, Ordering::Relaxed);
    server.watches.lock().clear();
    let starting = tokio::spawn(tasks.start(Some(tokio::time::Instant::now())));
    tokio::time::sleep(PATIENCE / 2).await;
    assert!(!starting.is_finished(), "the cache may lag behind the former leader's writes");
    timeout(PATIENCE * 3, starting).await.expect("it is not the end of the controller").unwrap();
}

#[tokio::test(start_paused = true)]
async fn workers_that_wait_for_the_server_sync_nothing_and_end_at_once_at_shutdown() {
    let server = Server::answering(0, Value::Null);
    let cx = Arc::new(context(&server));
    let reconciler = Arc::new(Patient { cx: cx.clone(), syncs: Default::default() });
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let queue = tasks.queue::<Key>("test");
    tasks.needs(&cx.informer::<Thing>());
    tasks.workers(&queue, 2, reconciler.clone());
    let running = tasks.start(None).await;
    server.is_down.store(true, Ordering::Relaxed);
    server.watches.lock().clear();
    tokio::time::sleep(Duration::from_millis(10)).await;
    for n in 0..100 {
        queue.add(Key::new("ns", n.to_string()), flyball_queue::Priority::Change);
    }
    tokio::time::sleep(PATIENCE * 10).await;
    assert_eq!(reconciler.syncs.load(Ordering::Relaxed), 0);
    assert_eq!(queue.depth(), 98, "two keys are in hand, the others stay in the queue");
    timeout(Duration::from_secs(1), running.drain(PATIENCE)).await.expect("nothing is in flight");
}
