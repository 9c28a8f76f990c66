//! One shared informer for each resource.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, PartialObject, Resource, ResourceType, ResourceVersion};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::server::{Server, Streaming};
use super::{Widget, settle};
use crate::source::Form;
use crate::{Filter, InformerOptions, Informers, Progress};

const GADGETS: ResourceType = ResourceType::new("test", "v1", "gadgets", "Gadget", true);

/// Informers over one model server, with a log of the sources that were opened.
fn informers(server: &Server) -> (Informers, Arc<Mutex<Vec<String>>>) {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let informers = Informers::over(
        Box::new({
            let (server, opened) = (server.clone(), opened.clone());
            move |resource, filter, form| {
                let part = filter.namespace.as_deref().unwrap_or("all");
                let form = if form == Form::Metadata { " metadata" } else { "" };
                opened.lock().push(format!("{resource} {part}{form}"));
                Arc::new(server.clone())
            }
        }),
        InformerOptions { seed: 1, ..InformerOptions::default() },
    );
    (informers, opened)
}

#[tokio::test(start_paused = true)]
async fn an_informer_is_shared() {
    let server = Server::with(&["a/x"]);
    let (informers, opened) = informers(&server);
    let one = informers.get::<Widget>();
    let two = informers.clone().get::<Widget>();
    assert!(Arc::ptr_eq(&one, &two));
    let part = Filter { namespace: Some("a".into()), ..Filter::default() };
    let filtered = informers.filtered::<Widget>(part.clone());
    assert!(Arc::ptr_eq(&filtered, &informers.filtered::<Widget>(part)));
    assert!(!Arc::ptr_eq(&filtered, &one));
    informers.all_synced().await;
    assert!(one.has_synced() && filtered.has_synced());
    assert_eq!(*opened.lock(), ["widgets.test all", "widgets.test a"]);
    assert_eq!(server.watches(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_metadata_can_be_added_at_run_time_and_stopped_again() {
    let server = Server::with(&["a/x"]);
    let (informers, opened) = informers(&server);
    let typed = informers.get::<Widget>();
    let gadgets = informers.dynamic(&GADGETS);
    assert!(gadgets.synced().await);
    let found: Arc<PartialObject> = gadgets.store().get(&Key::new("a", "x")).unwrap();
    assert_eq!(found.metadata.uid.to_string(), "uid-1");
    informers.stop(&GADGETS);
    informers.stop(&Widget::TYPE);
    sleep(Duration::from_millis(1)).await;
    assert!(gadgets.health().stopped);
    assert!(!typed.health().stopped, "only metadata informers are stopped by resource");
    assert_eq!(server.watches(), 1);
    assert!(informers.progress(&GADGETS).is_none());
    assert!(informers.dynamic(&GADGETS).synced().await);
    assert_eq!(
        *opened.lock(),
        ["widgets.test all", "gadgets.test all metadata", "gadgets.test all metadata"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_watched_already_is_not_watched_again_for_its_metadata() {
    let server = Server::with(&["a/x"]);
    let (informers, opened) = informers(&server);
    informers.get::<Widget>();
    let widgets = informers.observe(&Widget::TYPE);
    let gadgets = informers.observe(&GADGETS);
    informers.all_synced().await;
    let received = Arc::new(Mutex::new(Vec::new()));
    let _subscription = widgets.subscribe_meta(Box::new({
        let received = received.clone();
        move |change| received.lock().push(change.new.map(|meta| meta.name.clone()))
    }));
    let version = server.put("a/y", json!({}));
    widgets.reached(version).await;
    assert_eq!(*received.lock(), [Some("x".into()), Some("y".into())]);
    let mut uid = String::new();
    assert!(gadgets.look_at(&Key::new("a", "x"), &mut |meta| uid = meta.uid.to_string()));
    assert!(!gadgets.look_at(&Key::new("a", "missing"), &mut |_| {}));
    assert_eq!(uid, "uid-1");
    assert_eq!(opened.lock().len(), 2);
    let order: Vec<_> = informers.all().iter().map(|informer| informer.resource().to_string()).collect();
    assert_eq!(order, ["gadgets.test", "widgets.test"]);
}

#[tokio::test(start_paused = true)]
async fn progress_of_any_resource_can_be_waited_for() {
    let server = Server::with(&["a/x"]);
    let (informers, _) = informers(&server);
    assert!(informers.progress(&Widget::TYPE).is_none());
    informers.get::<Widget>().synced().await;
    let progress = informers.progress(&Widget::TYPE).unwrap();
    let version = server.put("a/y", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    progress.reached(version).await;
    assert_eq!(progress.version_reached(), version);
    let (uid, deleting, held) = progress.holds(&Key::new("a", "y")).unwrap();
    assert_eq!((uid.to_string().as_str(), deleting, held), ("uid-2", true, version));
    assert!(progress.holds(&Key::new("a", "missing")).is_none());
    let later = progress.reached(ResourceVersion(version.0 + 1));
    assert!(timeout(Duration::from_secs(5), later).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_first_list_from_before_a_restore_is_not_trusted_when_it_completes_after_it() {
    let (fast, slow) = (Server::with(&["a/x"]), Server::with(&["a/x"]).streaming(Streaming::NoEnd));
    let informers = Informers::over(
        Box::new({
            let (fast, slow) = (fast.clone(), slow.clone());
            move |resource, _, _| Arc::new(if *resource == GADGETS { slow.clone() } else { fast.clone() })
        }),
        InformerOptions { seed: 1, ..InformerOptions::default() },
    );
    let widgets = informers.get::<Widget>();
    assert!(widgets.synced().await);
    let gadgets = informers.dynamic(&GADGETS);
    settle().await;
    let next = Progress::next_list(&*widgets);
    widgets.report_restore(0);
    Progress::listed(&*widgets, next).await;
    assert!(informers.left_behind().is_empty() && !gadgets.has_synced(), "a list may take long");
    slow.end_list();
    settle().await;
    let behind: Vec<_> = informers.left_behind().iter().map(|cache| cache.resource().clone()).collect();
    assert!(gadgets.has_synced());
    assert_eq!(behind, [GADGETS]);
    slow.end_list();
    settle().await;
    assert!(informers.left_behind().is_empty());
}

/// A probe or a scrape of metrics looks at all informers.
#[tokio::test(start_paused = true)]
async fn a_released_informer_ends_with_its_last_user_and_not_with_luck() {
    let server = Server::with(&["a/x"]);
    let (informers, opened) = informers(&server);
    informers.dynamic(&GADGETS).synced().await;
    let glance = informers.all();
    informers.release(&GADGETS);
    settle().await;
    assert_eq!(server.watches(), 1, "it is being looked at");
    drop(glance);
    settle().await;
    assert_eq!((server.watches(), informers.all().len()), (0, 0));
    assert!(informers.progress(&GADGETS).is_none());

    let first = informers.observe(&GADGETS);
    let second = informers.observe(&GADGETS);
    drop(first);
    informers.release(&GADGETS);
    assert!(informers.progress(&GADGETS).is_some() && informers.all().len() == 1, "it has a second user");
    let third = informers.observe(&GADGETS);
    assert!(Arc::ptr_eq(&second, &third));
    drop((second, third));
    settle().await;
    assert_eq!(server.watches(), 1, "the third user has not released it");
    informers.release(&GADGETS);
    settle().await;
    assert_eq!((server.watches(), opened.lock().len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_factory_stops_informers_without_other_users() {
    let server = Server::with(&["a/x"]);
    let (informers, _) = informers(&server);
    let held = informers.get::<Widget>();
    informers.dynamic(&GADGETS);
    informers.all_synced().await;
    assert_eq!(server.watches(), 2);
    drop(informers);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(server.watches(), 1);
    held.reached(server.put("a/y", json!({}))).await;
}

#[tokio::test(start_paused = true)]
async fn stopping_all_informers_ends_all_waits() {
    let server = Server::with(&["a/x"]);
    server.set_reachable(false);
    let (informers, _) = informers(&server);
    let widgets = informers.get::<Widget>();
    let all = informers.all_synced();
    let stop = async {
        sleep(Duration::from_secs(1)).await;
        informers.stop_all();
    };
    tokio::join!(all, stop);
    assert!(!widgets.has_synced() && widgets.health().stopped);

    let (informers, _) = self::informers(&server);
    informers.get::<Widget>().stop();
    informers.all_synced().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_announced_before_it_shows_anything() {
    let server = Server::with(&["a/x"]);
    let (informers, _) = informers(&server);
    let widgets = informers.get::<Widget>();
    widgets.synced().await;
    let shown = Arc::new(Mutex::new(Vec::new()));
    let subscription = informers.on_connect({
        let (widgets, shown) = (widgets.clone(), shown.clone());
        move || shown.lock().push(widgets.version_reached())
    });
    let before = widgets.version_reached();
    widgets.reached(server.put("a/y", json!({}))).await;
    assert!(shown.lock().is_empty(), "the watch goes on");
    let reached = widgets.version_reached();
    assert!(reached > before);

    server.set_reachable(false);
    let missed = server.put("a/z", json!({}));
    sleep(Duration::from_secs(5)).await;
    server.set_reachable(true);
    widgets.reached(missed).await;
    let connections = std::mem::take(&mut *shown.lock());
    assert!(
        !connections.is_empty() && connections.iter().all(|version| *version == reached),
        "{connections:?}"
    );

    Progress::refresh(&*widgets);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(*shown.lock(), [missed], "a list");
    drop(subscription);
    server.cut();
    widgets.reached(server.put("a/w", json!({}))).await;
    assert_eq!(*shown.lock(), [missed], "the subscription has ended");
}
