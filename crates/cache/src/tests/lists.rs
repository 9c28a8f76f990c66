//! Lists: streamed or by pages, repeated, and instead of a watch.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Resource};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, Streaming, Unversioned};
use super::{Listener, Widget, settle, shape_of, start, synced};
use crate::source::Class;
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

/// As by a role that lacks the verb, or behind a proxy that buffers responses.
#[tokio::test(start_paused = true)]
async fn what_can_be_listed_and_not_watched_is_listed_again_and_again() {
    for (class, streaming) in
        [(Class::Passing, Streaming::Supported), (Class::Unreachable, Streaming::Refused)]
    {
        let server = Server::with(&["a/x"]).streaming(streaming);
        server.refuse_watches(class);
        let informer = start(&server);
        assert!(timeout(20 * SECOND, informer.synced()).await.expect("a list fills the cache"));
        for n in 0..3 {
            server.put(&format!("a/{n}"), json!({}));
            sleep(62 * SECOND).await;
            assert_eq!(shape_of(informer.store()), server.shape(), "{class:?}");
        }
        let failing = informer.health().failing.expect("lists do not end the outage of watches");
        assert!(failing.since > 150 * SECOND && failing.last_error.contains("forbidden"), "{failing:?}");
        server.take_requests();
        sleep(600 * SECOND).await;
        let requests = server.take_requests();
        assert!(requests.len() <= 60, "three requests each 30 to 60 seconds: {requests:?}");
        server.allow_watches();
        sleep(62 * SECOND).await;
        assert!(informer.health().is_healthy());
        assert_eq!(server.watches(), 1);
    }
}

/// To list everything as well would be the worst for it.
#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_for_watches_is_not_asked_for_lists() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    informer.reached(server.bookmark()).await;
    server.take_requests();
    server.throttle_watches();
    sleep(60 * SECOND).await;
    let requests = server.take_requests();
    assert!(requests.len() > 3, "{requests:?}");
    assert!(
        requests.iter().all(|request| *request == "present" || request.starts_with("watch")),
        "{requests:?}"
    );
    server.allow_watches();
    server.put("a/y", json!({}));
    sleep(62 * SECOND).await;
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(informer.counts().relists, 0);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_has_lost_its_watch_for_good_follows_by_lists() {
    for ends_at_once in [false, true] {
        let server = Server::with(&["a/x"]);
        let informer = synced(&server).await;
        informer.reached(server.bookmark()).await;
        match ends_at_once {
            false => server.refuse_watches(Class::Passing),
            true => server.end_new_watches(),
        }
        server.put("a/y", json!({}));
        sleep(120 * SECOND).await;
        server.put("a/z", json!({}));
        sleep(62 * SECOND).await;
        assert_eq!(shape_of(informer.store()), server.shape(), "ends at once: {ends_at_once}");
        assert!(!informer.health().is_healthy());
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_was_requested_does_not_wait_for_a_watch() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    sleep(10 * SECOND).await;
    server.refuse_watches(Class::Passing);
    server.put("a/y", json!({}));
    settle().await;
    let next = Progress::next_list(&informer);
    Progress::refresh(&informer);
    timeout(12 * SECOND, Progress::listed(&informer, next)).await.expect("a list by pages");
    assert_eq!(shape_of(informer.store()), server.shape());
}
