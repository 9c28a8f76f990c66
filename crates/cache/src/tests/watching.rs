//! How the reflector lists, watches and recovers.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ObjectMeta, Resource, ResourceVersion};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, Streaming};
use super::{Listener, Widget, settle, shape_of, start_with, synced};
use crate::source::{Class, EventKind};
use crate::{Informer, Progress};

const SECOND: Duration = Duration::from_secs(1);

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
    assert_eq!(server.take_requests()[..6], ["stream", "stream", "stream", "page", "page", "page"]);
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

/// The real server reports it in the first event.
#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_that_is_too_old_could_be_opened() {
    let server = Server::with(&["a/x"]).streaming(Streaming::Refused);
    let informer = synced(&server).await;
    for _ in 0..5 {
        while server.watches() == 0 {
            settle().await;
        }
        let next = Progress::next_list(&informer);
        server.end_watches(Class::VersionUnusable, "too old resource version");
        settle().await;
        assert!(!informer.health().is_healthy());
        Progress::listed(&informer, next).await;
        assert!(informer.health().is_healthy(), "{:?}", informer.health());
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_server_is_no_reason_to_list_everything() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    server.set_reachable(false);
    sleep(600 * SECOND).await;
    server.set_reachable(true);
    server.take_requests();
    sleep(62 * SECOND).await;
    assert_eq!(informer.counts().relists, 0);
    assert!(informer.health().is_healthy());
}
