//! What informers do about restores of etcd.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Resource, ResourceVersion};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::server::{Server, Streaming};
use super::{Listener, Widget, settle, shape_of, synced};
use crate::source::Class;
use crate::{Informer, InformerOptions, Progress};

const SECOND: Duration = Duration::from_secs(1);

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
async fn an_undone_creation_is_not_forgotten_if_the_watch_breaks_off_again() {
    let old = Server::with(&["a/x", "a/y"]);
    let server = Server::with(&["a/x", "a/y"]);
    let informer = synced(&server).await;
    informer.reached(server.put("a/z", json!({}))).await;
    server.set_reachable(false);
    server.restore(&old);
    server.put("b/0", json!({}));
    let newest = server.put("b/1", json!({}));
    for _ in 0..9 {
        // Writes to other resources.
        server.bookmark();
    }
    server.set_reachable(true);
    informer.reached(newest).await;
    // The newest object is now one that the server has.
    server.cut();
    sleep(3 * SECOND).await;
    server.bookmark();
    sleep(10 * SECOND).await;
    assert_eq!(shape_of(informer.store()), server.shape());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_a_restore_has_undone_is_noticed_also_after_a_list() {
    let old = Server::with(&["a/x", "a/y"]);
    let server = Server::with(&["a/x", "a/y"]);
    let informer = synced(&server).await;
    informer.reached(server.delete("a/y")).await;
    sleep(10 * SECOND).await;
    let next = Progress::next_list(&informer);
    Progress::refresh(&informer);
    Progress::listed(&informer, next).await;
    server.set_reachable(false);
    server.restore(&old);
    for _ in 0..9 {
        server.bookmark();
    }
    server.set_reachable(true);
    sleep(10 * SECOND).await;
    assert_eq!(shape_of(informer.store()), server.shape());
    assert_eq!(informer.counts().relists, 2);
    server.cut();
    sleep(10 * SECOND).await;
    assert_eq!(informer.counts().relists, 2, "once");
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
