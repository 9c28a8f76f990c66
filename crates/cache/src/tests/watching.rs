//! How the reflector lists, watches and recovers.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ObjectMeta, Resource, ResourceVersion};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, Streaming, Unversioned};
use super::{Listener, Widget, settle, shape_of, start, start_with, synced};
use crate::source::{Class, EventKind};
use crate::{Informer, InformerOptions, Progress};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_streaming_list_becomes_the_watch() {
    let server = Server::with(&["a/x", "a/y"]);
    let informer = synced(&server).await;
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(informer.version_reached(), server.version());
    informer.reached(server.put("b/z", json!({}))).await;
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(server.take_requests(), ["stream"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_resource_syncs_too() {
    for streaming in [Streaming::Supported, Streaming::Refused] {
        let informer = synced(&Server::new().streaming(streaming)).await;
        assert!(informer.store().is_empty() && informer.has_synced());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_streaming_is_listed_by_pages_and_not_asked_again() {
    let server = Server::with(&["a/1", "a/2", "a/3", "a/4", "a/5"]).streaming(Streaming::Refused).pages_of(2);
    let informer = synced(&server).await;
    assert_eq!(shape_of(informer.store()), server.shape());
    settle().await;
    assert_eq!(server.take_requests(), ["stream", "page", "page 1", "page 2", "watch 6"]);
    server.compact();
    server.cut();
    sleep(10 * SECOND).await;
    assert!(!server.take_requests().contains(&"stream".to_owned()));
    assert_eq!(informer.counts().pages, 6);
}

#[tokio::test(start_paused = true)]
async fn without_streaming_even_a_server_that_supports_it_is_listed_by_pages() {
    let server = Server::with(&["a/1", "a/2", "a/3"]).pages_of(2);
    let options = InformerOptions { streams: false, ..InformerOptions::default() };
    let (source, rng) = (Arc::new(server), StdRng::seed_from_u64(1));
    let informer = Informer::<Widget>::start_in(Arc::default(), Widget::TYPE, source, &options, rng);
    assert!(informer.synced().await);
    assert_eq!((informer.store().list().len(), informer.counts().pages), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_the_initial_events_is_listed_by_pages() {
    let server = Server::with(&["a/x"]).streaming(Streaming::NoEnd);
    let begin = Instant::now();
    let informer = synced(&server).await;
    assert!(begin.elapsed() <= 31 * SECOND);
    informer.reached(server.put("a/y", json!({}))).await;
    assert_eq!(shape_of(informer.store()), server.shape());
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_keeps_breaking_off_is_taken_by_pages() {
    let server = Server::with(&["a/x"]).streaming(Streaming::NoEnd);
    let informer = start(&server);
    for _ in 0..3 {
        while server.watches() == 0 {
            sleep(SECOND / 10).await;
        }
        server.cut();
        settle().await;
    }
    assert!(informer.synced().await);
    settle().await;
    assert_eq!(server.take_requests(), ["stream", "stream", "stream", "page", "watch 2"]);
    assert_eq!(shape_of(informer.store()), server.shape());
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_midway_are_listed_from_the_start() {
    let server = Server::with(&["a/1", "a/2", "a/3", "a/4"]).streaming(Streaming::Refused).pages_of(1);
    server.compact_after_pages(2);
    let informer = synced(&server).await;
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(server.take_requests()[..5], ["stream", "page", "page 1", "page 2", "page"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_repeats_its_continue_token_fails_the_list_by_name() {
    let server = Server::with(&["a/1", "a/2", "a/3", "a/4"]).streaming(Streaming::Refused).pages_of(1);
    server.repeat_token(Some("again"));
    let informer = start(&server);
    while informer.counts().failures == 0 {
        sleep(SECOND / 10).await;
    }
    let error = informer.health().failing.unwrap().last_error;
    assert_eq!(
        &*error,
        "listing by pages: the server returned the continue token \"again\" of widgets.test a second time"
    );
    assert_eq!(server.take_requests()[..3], ["stream", "page", "page again"]);
    server.repeat_token(None);
    assert!(informer.synced().await);
    assert_eq!(shape_of(informer.store()), server.shape());
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_between_two_attempts_at_the_first_list_does_not_stay() {
    let server = Server::with(&["a/1", "a/2", "a/3"]).streaming(Streaming::Refused).pages_of(1);
    server.compact_after_pages(2);
    let informer = start(&server);
    let (listener, _subscription) = Listener::to(&informer);
    while server.take_requests().len() < 3 {
        settle().await;
    }
    server.delete("a/1");
    assert!(informer.synced().await);
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(listener.view(), server.shape());
    assert_eq!(listener.complaints(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_ends_is_resumed_at_once_where_it_was() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    sleep(2 * SECOND).await;
    let version = server.bookmark();
    informer.reached(version).await;
    server.take_requests();
    let before = Instant::now();
    server.close_watches();
    informer.reached(server.put("a/y", json!({}))).await;
    assert_eq!(server.take_requests(), ["present".to_owned(), format!("watch {version}")]);
    assert!(before.elapsed() < SECOND);
    assert_eq!(informer.counts().failures, 0);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_resumed_after_a_pause_and_nothing_is_listed_anew() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let version = informer.version_reached();
    server.take_requests();
    server.cut();
    let before = Instant::now();
    informer.reached(server.put("a/y", json!({}))).await;
    assert!(before.elapsed() >= Duration::from_millis(800) && before.elapsed() < Duration::from_millis(1700));
    assert_eq!(server.take_requests(), ["present".to_owned(), format!("watch {version}")]);
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_right_away_do_not_make_a_hot_loop() {
    let server = Server::with(&["a/x"]);
    let _informer = synced(&server).await;
    server.take_requests();
    let closer = tokio::spawn({
        let server = server.clone();
        async move {
            loop {
                server.close_watches();
                sleep(Duration::from_millis(10)).await;
            }
        }
    });
    sleep(60 * SECOND).await;
    closer.abort();
    let requests = server.take_requests();
    assert!((8..=16).contains(&requests.len()), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn lists_that_succeed_followed_by_watches_that_expire_do_not_make_a_hot_loop() {
    let server = Server::with(&["a/x"]).streaming(Streaming::Refused);
    let _informer = synced(&server).await;
    let spoiler = tokio::spawn({
        let server = server.clone();
        async move {
            loop {
                server.end_watches(Class::VersionUnusable, "expired");
                sleep(Duration::from_millis(10)).await;
            }
        }
    });
    server.take_requests();
    sleep(60 * SECOND).await;
    spoiler.abort();
    let requests = server.take_requests();
    assert!(requests.len() < 20, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_that_expire_after_one_event_do_not_make_a_hot_loop() {
    let server = Server::with(&["a/x"]);
    let _informer = synced(&server).await;
    let spoiler = tokio::spawn({
        let server = server.clone();
        async move {
            loop {
                server.bookmark();
                settle().await;
                server.end_watches(Class::VersionUnusable, "expired");
                sleep(Duration::from_millis(10)).await;
            }
        }
    });
    server.take_requests();
    sleep(60 * SECOND).await;
    spoiler.abort();
    let lists = server.take_requests().iter().filter(|request| *request == "stream").count();
    assert!(lists <= 60_000 / 800, "{lists} lists in a minute");
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_growing_pauses_that_success_resets() {
    let server = Server::with(&["a/x"]);
    server.fail_next(5, None);
    let informer = synced(&server).await;
    let times = server.request_times();
    assert_eq!(times.len(), 6);
    for (pair, millis) in times.windows(2).zip([800, 1600, 3200, 6400, 12800]) {
        let pause = pair[1] - pair[0];
        let base = Duration::from_millis(millis);
        assert!(pause >= base && pause <= base * 2 + Duration::from_millis(2), "{pause:?} for {base:?}");
    }
    informer.reached(server.bookmark()).await;
    let before = Instant::now();
    server.cut();
    informer.reached(server.put("a/y", json!({}))).await;
    assert!(before.elapsed() < Duration::from_millis(1700));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_names_a_time_to_come_back_is_left_alone_until_then() {
    let server = Server::with(&["a/x"]);
    server.fail_next(1, Some(20 * SECOND));
    let before = Instant::now();
    synced(&server).await;
    assert!(before.elapsed() >= 20 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_relist_reports_what_vanished_and_what_changed_and_nothing_else() {
    for streaming in [Streaming::Supported, Streaming::Refused] {
        let server = Server::with(&["a/gone", "a/same", "a/changed", "a/replaced"]).streaming(streaming);
        let informer = synced(&server).await;
        let (listener, _subscription) = Listener::to(&informer);
        listener.take();
        server.set_reachable(false);
        server.delete("a/gone");
        server.put("a/changed", json!({"size": 2}));
        server.delete("a/replaced");
        server.put("a/replaced", json!({}));
        server.put("a/new", json!({}));
        server.compact();
        server.set_reachable(true);
        informer.reached(server.version()).await;
        let mut received = listener.take();
        received.sort();
        let want = [
            "add a/new Relist",
            "add a/replaced Relist",
            "delete a/gone Relist",
            "delete a/replaced Relist",
            "update a/changed Relist",
        ];
        assert_eq!(received, want);
        assert_eq!(shape_of(informer.store()), server.shape());
        assert_eq!(listener.view(), server.shape());
        assert_eq!(informer.counts().relists, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_from_a_backup_is_believed_although_its_versions_are_lower() {
    for streaming in [Streaming::Supported, Streaming::Refused] {
        let old = Server::with(&["a/x"]);
        let server = Server::with(&["a/x", "a/y", "a/z"]).streaming(streaming);
        let informer = synced(&server).await;
        assert_eq!(informer.version_reached().0, 4);
        let unreachable = informer.reached(ResourceVersion(1000));
        server.restore(&old);
        server.cut();
        timeout(10 * SECOND, unreachable).await.expect("who waits for what will not come is released");
        assert_eq!(shape_of(informer.store()), old.shape());
        assert_eq!(informer.version_reached(), old.version());
        informer.reached(server.put("a/w", json!({}))).await;
        assert_eq!(shape_of(informer.store()), server.shape());
        assert_eq!(informer.counts().relists, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_subscribers_are_shown_everything_again() {
    for streaming in [Streaming::Supported, Streaming::Refused] {
        let old = Server::with(&["a/x", "a/y"]);
        let server = Server::with(&["a/x", "a/y", "a/z"]).streaming(streaming);
        let informer = synced(&server).await;
        let (listener, _subscription) = Listener::to(&informer);
        listener.take();
        server.restore(&old);
        server.cut();
        sleep(10 * SECOND).await;
        assert_eq!(listener.view(), old.shape());
        let mut heard = listener.take();
        heard.retain(|said| said.ends_with("Initial"));
        heard.sort();
        assert_eq!(heard, ["add a/x Initial", "add a/y Initial"]);
        server.cut();
        sleep(10 * SECOND).await;
        assert_eq!(listener.take(), Vec::<String>::new(), "once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_is_detected_by_an_object_once_the_server_has_caught_up() {
    let old = Server::with(&["a/x"]);
    let server = Server::with(&["a/x", "a/y", "a/x"]);
    let informer = synced(&server).await;
    server.set_reachable(false);
    server.restore(&old);
    for n in 0..9 {
        server.put(&format!("b/{n}"), json!({}));
    }
    assert!(server.version() > informer.version_reached());
    server.set_reachable(true);
    sleep(10 * SECOND).await;
    assert_eq!(shape_of(informer.store()), server.shape());
}

#[tokio::test(start_paused = true)]
async fn an_undone_creation_or_deletion_is_detected_once_the_server_has_caught_up() {
    for is_creation in [true, false] {
        let old = Server::with(&["a/x", "a/y"]);
        let server = Server::with(&["a/x", "a/y"]);
        let informer = synced(&server).await;
        informer.reached(if is_creation { server.put("a/z", json!({})) } else { server.delete("a/y") }).await;
        server.set_reachable(false);
        server.restore(&old);
        for n in 0..9 {
            server.put(&format!("b/{n}"), json!({}));
        }
        server.set_reachable(true);
        sleep(3 * SECOND).await;
        // The server sends a bookmark two seconds before the end of a watch.
        let is_bookmark_near = server.watch_timeouts().iter().any(|timeout| *timeout < 5 * SECOND);
        assert_eq!(is_bookmark_near, is_creation, "is a creation: {is_creation}");
        server.bookmark();
        sleep(10 * SECOND).await;
        assert_eq!(shape_of(informer.store()), server.shape(), "is a creation: {is_creation}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_while_the_watch_is_broken_is_no_restore() {
    let server = Server::with(&["a/x", "a/y"]);
    let informer = synced(&server).await;
    server.set_reachable(false);
    server.delete("a/y");
    server.set_reachable(true);
    sleep(10 * SECOND).await;
    server.bookmark();
    sleep(10 * SECOND).await;
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(informer.counts().relists, 0);
}

#[tokio::test(start_paused = true)]
async fn a_restore_is_noticed_also_if_watches_end_in_good_order_or_survive() {
    for survives in [false, true] {
        let old = Server::with(&["a/x"]);
        let server = Server::with(&["a/x", "a/y", "a/z"]);
        let informer = synced(&server).await;
        sleep(5 * SECOND).await;
        server.restore(&old);
        match survives {
            true => server.bookmark_of(old.version()),
            false => server.close_watches(),
        }
        sleep(5 * SECOND).await;
        assert_eq!(shape_of(informer.store()), server.shape(), "survives: {survives}");
        informer.reached(server.put("a/w", json!({}))).await;
        assert_eq!(shape_of(informer.store()), server.shape());
    }
}

#[tokio::test(start_paused = true)]
async fn one_informer_that_notices_a_restore_makes_all_list_anew() {
    let (quiet, busy) = (Server::with(&["a/x"]), Server::with(&["a/x", "a/y", "a/z"]));
    let era = Arc::new(crate::era::Era::default());
    let informer = |server: &Server| {
        let source = Arc::new(server.clone());
        Informer::<Widget>::start_in(
            era.clone(),
            Widget::TYPE,
            source,
            &InformerOptions::default(),
            StdRng::seed_from_u64(1),
        )
    };
    let (first, second) = (informer(&quiet), informer(&busy));
    first.synced().await;
    second.synced().await;
    // No watch of this one breaks off, and no version of it is lower.
    let next = Progress::next_list(&first);
    busy.restore(&Server::with(&["a/x"]));
    busy.cut();
    timeout(10 * SECOND, Progress::listed(&first, next)).await.unwrap();
    assert_eq!((first.counts().relists, second.counts().relists), (1, 1));
    sleep(60 * SECOND).await;
    assert_eq!((first.counts().relists, second.counts().relists), (1, 1), "once");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_cannot_list_after_a_restore_backs_off() {
    let (failing, restored) = (Server::with(&["a/x"]), Server::with(&["a/x", "a/y", "a/z"]));
    let era = Arc::new(crate::era::Era::default());
    let informer = |server: &Server| {
        let (source, options) = (Arc::new(server.clone()), InformerOptions::default());
        Informer::<Widget>::start_in(era.clone(), Widget::TYPE, source, &options, StdRng::seed_from_u64(1))
    };
    let (first, second) = (informer(&failing), informer(&restored));
    first.synced().await;
    second.synced().await;
    failing.take_requests();
    failing.respond_after(Duration::from_millis(1));
    // The first informer lost its watch, and is refused from then on; the second one notices a restore.
    failing.fail_next(u32::MAX, None);
    failing.end_watches(Class::Passing, "conversion webhook is down");
    settle().await;
    restored.restore(&Server::with(&["a/x"]));
    restored.cut();
    sleep(60 * SECOND).await;
    assert_eq!(second.counts().relists, 1);
    let requests = failing.take_requests();
    assert!(requests.len() < 12, "{} requests in a minute", requests.len());
    failing.fail_next(0, None);
    let next = Progress::next_list(&first);
    timeout(61 * SECOND, Progress::listed(&first, next)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_did_not_stream_once_is_asked_again_later() {
    let server = Server::with(&["a/x"]).streaming(Streaming::NoEnd);
    let _informer = synced(&server).await;
    let server = server.streaming(Streaming::Supported);
    sleep(3600 * SECOND).await;
    server.take_requests();
    server.compact();
    server.end_watches(Class::VersionUnusable, "expired");
    sleep(10 * SECOND).await;
    assert_eq!(server.take_requests(), ["present", "stream"]);
}

#[tokio::test(start_paused = true)]
async fn a_first_loss_of_place_is_no_failure_and_costs_no_pause() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    informer.reached(server.bookmark()).await;
    sleep(10 * SECOND).await;
    let before = Instant::now();
    server.end_watches(Class::VersionUnusable, "too old resource version");
    informer.reached(server.put("a/y", json!({}))).await;
    assert!(before.elapsed() < Duration::from_millis(10));
    assert!(informer.health().is_healthy());
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_that_outlives_its_timeout_is_replaced() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let asked = server.watch_timeouts()[0];
    assert!(asked >= 300 * SECOND && asked < 600 * SECOND, "{asked:?}");
    server.mute();
    let version = server.put("a/unheard", json!({}));
    sleep(asked + 29 * SECOND).await;
    assert_eq!(informer.store().len(), 1);
    server.unmute();
    timeout(3 * SECOND, informer.reached(version)).await.unwrap();
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(informer.counts().idle_watches, 1);
    assert_eq!(server.watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_version_reached_so_that_a_quiet_resource_can_be_resumed() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let version = server.bookmark();
    informer.reached(version).await;
    server.take_requests();
    server.cut();
    sleep(3 * SECOND).await;
    assert_eq!(server.take_requests(), ["present".to_owned(), format!("watch {version}")]);
}

#[tokio::test(start_paused = true)]
async fn replayed_events_are_ignored() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let (listener, _subscription) = Listener::to(&informer);
    server.put("a/y", json!({}));
    server.delete("a/y");
    server.put("a/y", json!({}));
    server.put("a/z", json!({}));
    informer.reached(server.delete("a/z")).await;
    listener.take();
    server.replay(5);
    settle().await;
    assert_eq!(listener.take(), [""; 0]);
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(informer.counts().ignored_events, 5);
}

#[tokio::test(start_paused = true)]
async fn deletions_that_share_a_version_are_all_noticed() {
    let server = Server::with(&["a/x", "a/y"]);
    let informer = synced(&server).await;
    for name in ["x", "y"] {
        let meta = json!({"namespace": "a", "name": name, "uid": format!("uid-{}", if name == "x" { 1 } else { 2 }), "resourceVersion": "9"});
        server.send(EventKind::Deleted, &json!({"metadata": meta}));
    }
    settle().await;
    assert!(informer.store().is_empty());
}

#[tokio::test(start_paused = true)]
async fn twenty_seconds_without_a_server_and_a_compaction_leave_no_trace() {
    let server = Server::new();
    for n in 0..1000 {
        server.put(&format!("a/{n}"), json!({}));
    }
    let informer = synced(&server).await;
    let (listener, _subscription) = Listener::to(&informer);
    listener.take();
    let before = informer.store().overhead_bytes();
    server.set_reachable(false);
    sleep(20 * SECOND).await;
    server.delete("a/17");
    server.put("a/1017", json!({}));
    server.compact();
    let failing = informer.health().failing.unwrap();
    assert!(failing.since >= 19 * SECOND && failing.failures >= 4, "{failing:?}");
    assert!(failing.last_error.contains("connection refused"), "{failing:?}");
    server.set_reachable(true);
    timeout(60 * SECOND, informer.reached(server.version())).await.unwrap();
    assert_eq!(listener.take().len(), 2);
    assert_eq!(listener.view(), server.shape());
    assert_eq!(informer.store().overhead_bytes(), before);
    assert!(informer.health().is_healthy());
    assert_eq!(server.watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resync_delivers_every_object_after_one_to_two_periods() {
    let server = Server::with(&["a/x", "a/y"]);
    let informer = start_with(&server, Some(3600 * SECOND));
    informer.synced().await;
    let (listener, _subscription) = Listener::to(&informer);
    listener.take();
    sleep(3590 * SECOND).await;
    assert_eq!(listener.take(), [""; 0]);
    sleep(3620 * SECOND).await;
    let mut received = listener.take();
    received.sort();
    assert_eq!(received, ["update a/x Resync", "update a/y Resync"]);
    sleep(7200 * SECOND).await;
    assert!(listener.take().len() >= 2);
    assert_eq!(listener.complaints(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_period_there_is_no_resync() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let (listener, _subscription) = Listener::to(&informer);
    listener.take();
    sleep(48 * 3600 * SECOND).await;
    assert_eq!(listener.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_streaming_list_is_taken_over_in_order() {
    let server = Server::with(&["a/x", "a/y"]).streaming(Streaming::NoEnd);
    let informer = start(&server);
    settle().await;
    server.put("a/x", json!({"size": 2}));
    server.delete("a/y");
    server.replay(1);
    settle().await;
    server.end_list();
    assert!(informer.synced().await);
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(informer.store().get(&Key::new("a", "x")).unwrap().size, 2);
    assert_eq!(server.take_requests(), ["stream"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_begins_with_its_request_and_not_with_the_response() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    sleep(10 * SECOND).await;
    server.take_requests();
    server.respond_after(5 * SECOND);
    Progress::refresh(&informer);
    settle().await;
    assert_eq!(server.take_requests(), ["stream"]);
    // Created after the server has decided what the list shows, and not delivered to the watch yet.
    server.mute();
    let created = server.put("a/y", json!({}));
    let next = Progress::next_list(&informer);
    sleep(10 * SECOND).await;
    assert_eq!((informer.counts().relists, informer.version_reached() < created), (1, true));
    assert!(!Progress::has_listed(&informer, next), "the list does not show what was created after it began");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_ends_when_it_comes_and_leaves_nothing_behind() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    informer.reached(ResourceVersion(0)).await;
    let version = server.version();
    let later = ResourceVersion(version.0 + 2);
    assert!(timeout(SECOND, informer.reached(later)).await.is_err());
    assert_eq!(informer.writer.state.version_waits.len(), 0);
    let (one, two) = (informer.reached(later), informer.reached(later));
    let write = async {
        server.put("a/y", json!({}));
        settle().await;
        assert_eq!(informer.writer.state.version_waits.len(), 1);
        server.put("a/y", json!({}));
    };
    tokio::join!(one, two, write);
    assert_eq!(informer.writer.state.version_waits.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_api_without_versions_is_listed_again_after_each_watch() {
    let server = Server::with(&["a/x", "a/y"]);
    let source = Arc::new(Unversioned(server.clone()));
    let informer = Informer::<Widget>::start(Widget::TYPE, source, None, StdRng::seed_from_u64(1));
    informer.synced().await;
    sleep(2 * SECOND).await;
    server.put("a/z", json!({}));
    settle().await;
    assert_eq!(informer.store().len(), 3);
    server.mute();
    server.delete("a/x");
    server.unmute();
    server.close_watches();
    sleep(5 * SECOND).await;
    let names: Vec<_> = shape_of(informer.store()).into_keys().collect();
    assert_eq!(names, [Key::new("a", "y"), Key::new("a", "z")]);
}

/// Decodes, except where it says otherwise.
#[derive(Default)]
struct Explosive {
    metadata: ObjectMeta,
}

impl<'de> Deserialize<'de> for Explosive {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Widget { metadata, size, .. } = Widget::deserialize(deserializer)?;
        assert_ne!(size, 13, "made to panic");
        Ok(Self { metadata })
    }
}

flyball_api::resource!(Explosive, "test", "v1", "widgets", "Widget", namespaced);

#[tokio::test(start_paused = true)]
async fn only_an_object_whose_decoding_panics_is_skipped() {
    let server = Server::with(&["a/x"]);
    server.put("a/listed", json!({"size": 13}));
    let source = Arc::new(server.clone());
    let informer = Informer::<Explosive>::start(Explosive::TYPE, source, None, StdRng::seed_from_u64(1));
    informer.synced().await;
    server.put("a/y", json!({"size": 13}));
    timeout(SECOND, informer.reached(server.put("a/z", json!({})))).await.unwrap();
    assert!(informer.health().is_healthy());
    assert_eq!(informer.store().undecodable(), [Key::new("a", "listed"), Key::new("a", "y")]);
    assert_eq!(informer.store().len(), 2);
    let counts = informer.counts();
    assert_eq!((counts.decode_failures, counts.undecodable, counts.relists), (2, 2, 0));
    let version = server.put("a/y", json!({"size": 14}));
    timeout(SECOND, informer.reached(version)).await.unwrap();
    assert_eq!(informer.store().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_requested_relist_replaces_the_watch_but_not_repeatedly() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    sleep(11 * SECOND).await;
    server.mute();
    let version = server.put("a/unheard", json!({}));
    server.unmute();
    server.take_requests();
    Progress::refresh(&informer);
    timeout(SECOND, informer.reached(version)).await.unwrap();
    for _ in 0..30 {
        Progress::refresh(&informer);
        sleep(SECOND).await;
    }
    let lists = server.take_requests().iter().filter(|request| *request == "stream").count();
    assert!((3..=4).contains(&lists), "{lists}");
    assert_eq!(informer.counts().failures, 0);
}
