//! Subscribers, undecodable objects, health and the end of informers.

use std::sync::Arc;

use flyball_api::{Key, ResourceVersion};
use parking_lot::Mutex;
use serde_json::json;

use super::server::{Server, Streaming};
use super::{Listener, settle, shape_of, start, synced};
use crate::source::EventKind;
use crate::{AnyInformer, Progress};

#[tokio::test(start_paused = true)]
async fn every_subscriber_receives_every_change_once_and_in_order() {
    let server = Server::with(&["a/x"]);
    let informer = start(&server);
    let (early, _one) = Listener::to(&informer);
    informer.synced().await;
    informer.reached(server.put("a/y", json!({}))).await;
    let (late, _two) = Listener::to(&informer);
    server.put("a/x", json!({"size": 1}));
    informer.reached(server.delete("a/y")).await;
    let tail = ["update a/x Watch", "delete a/y Watch"];
    assert_eq!(early.take(), ["add a/x Initial", "add a/y Watch", tail[0], tail[1]]);
    let mut received = late.take();
    received[..2].sort();
    assert_eq!(received, ["add a/x Initial", "add a/y Initial", tail[0], tail[1]]);
    assert_eq!(early.complaints(), [""; 0]);
    assert_eq!(late.complaints(), [""; 0]);
}

/// On several threads: subscribers join while changes come in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_amid_changes_misses_nothing_and_repeats_nothing() {
    let server = Server::new();
    let informer = synced(&server).await;
    let writer = tokio::task::spawn_blocking({
        let server = server.clone();
        move || {
            for n in 0..2000 {
                server.put(&format!("a/{}", n % 50), json!({"size": n}));
                if n % 7 == 0 {
                    server.delete(&format!("a/{}", n % 31));
                }
            }
        }
    });
    let mut listeners = Vec::new();
    while !writer.is_finished() {
        listeners.push(Listener::to(&informer));
        tokio::task::yield_now().await;
        if listeners.len() > 40 {
            drop(listeners.remove(0));
        }
    }
    writer.await.unwrap();
    listeners.push(Listener::to(&informer));
    informer.reached(server.put("a/end", json!({}))).await;
    for (listener, _subscription) in &listeners {
        assert_eq!(listener.view(), server.shape());
        assert_eq!(listener.complaints(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_subscription_ends_it_even_from_inside_a_handler() {
    let server = Server::new();
    let informer = synced(&server).await;
    let held = Arc::new(Mutex::new(None));
    let calls = Arc::new(Mutex::new(0));
    let subscription = informer.subscribe(Box::new({
        let (held, calls) = (held.clone(), calls.clone());
        move |_| {
            *calls.lock() += 1;
            drop(held.lock().take());
        }
    }));
    *held.lock() = Some(subscription);
    let (other, other_subscription) = Listener::to(&informer);
    server.put("a/x", json!({}));
    informer.reached(server.put("a/y", json!({}))).await;
    assert_eq!(*calls.lock(), 1);
    drop(other_subscription);
    informer.reached(server.put("a/z", json!({}))).await;
    assert_eq!(other.take().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_does_not_affect_others() {
    let server = Server::with(&["a/x"]);
    let informer = start(&server);
    let _bad = informer.subscribe(Box::new(|change| assert_ne!(change.key().name, "x", "made to panic")));
    let (good, _subscription) = Listener::to(&informer);
    informer.synced().await;
    informer.reached(server.put("a/y", json!({}))).await;
    assert_eq!(good.take(), ["add a/x Initial", "add a/y Watch"]);
    assert_eq!(informer.counts().handler_panics, 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_shows_the_final_state() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let last = Arc::new(Mutex::new(None));
    let _subscription = informer.subscribe(Box::new({
        let last = last.clone();
        move |change| {
            if change.new.is_none() {
                *last.lock() = change.old.map(|old| old.metadata.resource_version);
            }
        }
    }));
    let version = server.delete("a/x");
    informer.reached(version).await;
    assert_eq!(*last.lock(), Some(version));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_is_known_and_stops_nothing() {
    for streaming in [Streaming::Supported, Streaming::Refused] {
        let server = Server::with(&["a/good"]).streaming(streaming);
        server.put("a/bad", json!({"size": "huge"}));
        let informer = synced(&server).await;
        settle().await;
        let (listener, _subscription) = Listener::to(&informer);
        listener.take();
        assert_eq!(informer.store().undecodable(), [Key::new("a", "bad")]);
        assert_eq!((informer.store().len(), informer.counts().undecodable), (1, 1));
        let (uid, deleting, version) = informer.holds(&Key::new("a", "bad")).unwrap();
        assert_eq!((uid.to_string().as_str(), deleting, version), ("uid-2", false, server.version()));

        informer.reached(server.put("a/bad", json!({"size": 1}))).await;
        assert_eq!(listener.take(), ["add a/bad Watch"]);
        assert_eq!(informer.store().undecodable(), []);

        informer.reached(server.put("a/bad", json!({"size": []}))).await;
        assert_eq!(listener.take(), [""; 0], "the last readable version stays");
        assert_eq!(informer.store().get(&Key::new("a", "bad")).unwrap().size, 1);
        assert!(!informer.store().is_current(&Key::new("a", "bad")));
        assert!(informer.store().is_current(&Key::new("a", "good")));
        assert_eq!(informer.holds(&Key::new("a", "bad")).unwrap().2, server.version());

        informer.reached(server.delete("a/bad")).await;
        assert_eq!(listener.take(), ["delete a/bad Watch"]);
        assert_eq!(informer.store().undecodable(), []);
        assert_eq!(shape_of(informer.store()), server.shape());
        assert_eq!(listener.complaints(), [""; 0]);
        assert_eq!(informer.counts().decode_failures, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_keeps_undecodable_objects_it_names_and_forgets_those_it_does_not() {
    for streaming in [Streaming::Supported, Streaming::Refused] {
        let server = Server::with(&["a/once-good", "a/gone"]).streaming(streaming);
        server.put("a/never-good", json!({"size": ""}));
        server.put("a/never-good-gone", json!({"size": ""}));
        let informer = synced(&server).await;
        let (listener, _subscription) = Listener::to(&informer);
        server.put("a/once-good", json!({"size": ""}));
        informer.reached(server.put("a/gone", json!({"size": ""}))).await;
        let failures = informer.counts().decode_failures;
        listener.take();
        server.set_reachable(false);
        server.delete_unheard("a/gone");
        server.delete_unheard("a/never-good-gone");
        server.set_reachable(true);
        informer.reached(server.version()).await;
        assert_eq!(listener.take(), ["delete a/gone Relist"]);
        assert_eq!(informer.store().undecodable(), [Key::new("a", "never-good"), Key::new("a", "once-good")]);
        assert_eq!(informer.counts().decode_failures, failures, "noted once for each version");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_within_a_streaming_list_does_not_undo_the_list() {
    let server = Server::with(&["a/x"]).streaming(Streaming::NoEnd);
    let informer = start(&server);
    settle().await;
    server.put("a/x", json!({"size": "?"}));
    server.echo(0);
    settle().await;
    server.end_list();
    assert!(informer.synced().await);
    assert_eq!(informer.store().undecodable(), [Key::new("a", "x")]);
    assert_eq!(informer.store().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_successor_of_the_same_name_means_the_old_object_is_gone() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let (listener, _subscription) = Listener::to(&informer);
    listener.take();
    let meta = json!({"namespace": "a", "name": "x", "uid": "other", "resourceVersion": "9"});
    server.send(EventKind::Applied, &json!({"metadata": meta, "size": {}}));
    informer.reached(ResourceVersion(9)).await;
    assert_eq!(listener.take(), ["delete a/x Watch"]);
    assert!(informer.store().is_empty());
    assert_eq!(informer.store().undecodable(), [Key::new("a", "x")]);
}

#[tokio::test(start_paused = true)]
async fn events_without_a_name_are_counted_and_skipped() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    for nonsense in
        [json!(null), json!([]), json!({}), json!({"metadata": {}}), json!({"metadata": {"name": 5}})]
    {
        server.send(EventKind::Applied, &nonsense);
        server.send(EventKind::Deleted, &nonsense);
        server.send(EventKind::Bookmark, &nonsense);
    }
    informer.reached(server.put("a/y", json!({}))).await;
    assert_eq!(informer.counts().decode_failures, 10);
    assert_eq!(shape_of(informer.store()), server.shape());
    assert!(informer.health().is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_keeps_its_store_and_says_that_it_stopped() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    informer.stop();
    settle().await;
    assert_eq!(server.watches(), 0);
    server.put("a/y", json!({}));
    settle().await;
    assert_eq!(informer.store().len(), 1);
    assert!(informer.health().stopped && !informer.health().is_healthy());

    let never = start(&server);
    let waiting = AnyInformer::synced(&never);
    never.stop();
    assert!(!waiting.await);
}

#[tokio::test(start_paused = true)]
async fn dropping_an_informer_ends_its_watch() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    let reached = Progress::reached(&informer, server.version());
    assert_eq!(server.watches(), 1);
    drop(informer);
    settle().await;
    assert_eq!(server.watches(), 0);
    reached.await;
}
