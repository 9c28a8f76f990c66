use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::server::Server;
use super::{shape_of, start, synced};
use crate::AnyInformer;

#[tokio::test(start_paused = true)]
async fn a_cache_behind_a_watch_that_lags_is_not_current_before_it_shows_everything() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    server.mute();
    server.put("a/y", json!({}));
    sleep(Duration::from_secs(1)).await;
    assert_ne!(shape_of(informer.store()), server.shape(), "it lags");
    informer.current_since(Instant::now()).await;
    assert_eq!(shape_of(informer.store()), server.shape());
}

#[tokio::test(start_paused = true)]
async fn concurrent_waiters_share_one_request() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    server.take_requests();
    let since = Instant::now();
    futures::future::join_all((0..50).map(|_| informer.current_since(since))).await;
    assert_eq!(server.take_requests(), ["page"]);
    sleep(Duration::from_secs(1)).await;
    informer.current_since(Instant::now()).await;
    assert_eq!(server.take_requests(), ["page"], "for a later time it is asked again");
}

#[tokio::test(start_paused = true)]
async fn a_large_cache_gets_a_bookmark_instead_of_a_list() {
    let names: Vec<String> = (0..1001).map(|n| format!("a/x{n}")).collect();
    let server = Server::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let informer = synced(&server).await;
    server.take_requests();
    // Something else in the cluster moved the version on.
    server.mute();
    server.bookmark();
    server.unmute();
    let waiting = informer.current_since(Instant::now());
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err(), "there was no bookmark yet");
    assert_eq!(server.take_requests(), ["page", "watch 1002"]);
    assert_eq!(server.watch_timeouts().last(), Some(&Duration::from_secs(3)));
    server.bookmark();
    timeout(Duration::from_millis(10), waiting).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_is_retried_and_a_stopped_informer_ends_the_wait() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    server.fail_next(3, None);
    timeout(Duration::from_secs(10), informer.current_since(Instant::now())).await.unwrap();
    server.set_reachable(false);
    let waiting = informer.current_since(Instant::now());
    informer.stop();
    timeout(Duration::from_secs(10), waiting).await.unwrap();
    drop(start(&server));
}
