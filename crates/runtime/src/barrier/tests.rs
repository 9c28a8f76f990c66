//! Writes against a server whose watch is controlled by the test, so that every state between a write and its event can be
//! tested.

mod doubts;
mod overtaken;
mod race;
mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flyball_api::{Resource, resource};
use flyball_cache::Filter;
use flyball_client::{Body, ClientOptions, DeleteOptions, Patch, Transport, TransportError};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::Method;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::Context;

#[derive(Debug, Deserialize)]
struct Thing {
    metadata: ObjectMeta,
}

resource!(Thing, "example.com", "v1", "things", "Thing", namespaced);

fn meta(fields: Value) -> ObjectMeta {
    let mut meta = json!({"name": "t", "namespace": "ns", "uid": "uid-1", "resourceVersion": "5"});
    for (field, value) in fields.as_object().unwrap() {
        meta[field] = value.clone();
    }
    serde_json::from_value(meta).unwrap()
}

#[test]
fn what_goes_with_its_last_finalizer_is_waited_for_until_it_is_gone() {
    let deleted = "2026-01-01T00:00:00Z";
    let namespaces = ResourceType::new("", "v1", "namespaces", "Namespace", false);
    #[rustfmt::skip]
    let table = [
        // case                              kind          metadata                                                                    vanishes
        ("nothing special",                  Thing::TYPE,  json!({}),                                                                  false),
        ("being deleted, and held",          Thing::TYPE,  json!({"deletionTimestamp": deleted, "finalizers": ["example.com/mine"]}),  false),
        ("nothing holds it any more",        Thing::TYPE,  json!({"deletionTimestamp": deleted}),                                      true),
        ("it was given no time to end",      Thing::TYPE,  json!({"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0}),     true),
        ("a pod whose kubelet still works",  Thing::TYPE,  json!({"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}),    false),
        ("a shadow that has not written",    Thing::TYPE,  json!({"deletionTimestamp": deleted, "resourceVersion": "0"}),              false),
        ("a namespace held by its spec",     namespaces,   json!({"deletionTimestamp": deleted}),                                      false),
    ];
    for (case, kind, fields, vanishes) in table {
        let meta = meta(fields);
        let want = match vanishes {
            true => Awaited::Vanished(meta.key(), meta.uid.clone()),
            false => Awaited::Version(meta.resource_version),
        };
        assert_eq!(Awaited::after(&kind, &meta), want, "{case}");
    }
}

#[test]
fn the_table_of_waits_is_small_again_after_many_waits() {
    let mut waits = Waits::default();
    let key = |number: u32| Key::new("ns", number.to_string());
    waits.extend((0..10_000).map(|number| (key(number), vec![])));
    (0..10_000).for_each(|number| remove(&mut waits, &key(number)));
    assert!(waits.is_empty() && waits.capacity() <= 128, "{}", waits.capacity());
}

/// A server with one object and prepared responses to writes.
struct Server {
    answer: (u16, Value),
    /// Whether a list still finds the object.
    lists: bool,
    /// The queries of lists so far.
    queries: parking_lot::Mutex<Vec<String>>,
    watches: parking_lot::Mutex<Vec<mpsc::UnboundedSender<Bytes>>>,
    /// The version at the end of a list.
    version: AtomicUsize,
    is_down: AtomicBool,
    /// Whether the next write is the last request that gets a response.
    goes_down_at_write: AtomicBool,
    is_forbidden: AtomicBool,
    is_unwatchable: AtomicBool,
    /// Requests whose query contains one of these are refused.
    refused_parts: parking_lot::Mutex<Vec<String>>,
    /// Requests whose query contains one of these get no response.
    silent_parts: parking_lot::Mutex<Vec<String>>,
    /// How many reads were refused.
    refused: AtomicUsize,
}

impl Server {
    fn answering(code: u16, answer: Value) -> Arc<Self> {
        Arc::new(Self {
            answer: (code, answer),
            lists: true,
            queries: Default::default(),
            watches: Default::default(),
            version: AtomicUsize::new(6),
            is_down: AtomicBool::new(false),
            goes_down_at_write: AtomicBool::new(false),
            is_forbidden: AtomicBool::new(false),
            is_unwatchable: AtomicBool::new(false),
            refused_parts: Default::default(),
            silent_parts: Default::default(),
            refused: Default::default(),
        })
    }

    fn object(version: &str, finalizers: Value) -> Value {
        json!({"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "t", "namespace": "ns",
            "uid": "uid-1", "resourceVersion": version, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": finalizers}})
    }

    fn held() -> Value {
        Self::object("5", json!(["example.com/mine"]))
    }

    /// Sends an event to all watches.
    fn send_event(&self, kind: &str, object: &Value) {
        let line = Bytes::from(json!({"type": kind, "object": object}).to_string() + "\n");
        self.watches.lock().retain(|watch| watch.send(line.clone()).is_ok());
    }

    fn watch(&self) -> Body {
        let (sender, events) = mpsc::unbounded_channel();
        self.watches.lock().push(sender);
        let version = self.version.load(Ordering::Relaxed).to_string();
        let end = json!({"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"resourceVersion": version,
            "annotations": {"k8s.io/initial-events-end": "true"}}});
        self.send_event("ADDED", &Self::held());
        self.send_event("BOOKMARK", &end);
        let lines =
            stream::unfold(events, |mut events| async { events.recv().await.map(|line| (line, events)) });
        StreamBody::new(lines.map(|line| Ok(Frame::data(line)))).boxed_unsync()
    }
}

struct Wire(Arc<Server>);

impl Transport for Wire {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let server = self.0.clone();
        Box::pin(async move {
            let whole =
                |value: &Value| Full::from(value.to_string()).map_err(|never| match never {}).boxed_unsync();
            if server.is_down.load(Ordering::Relaxed) {
                return Err(TransportError::NotSent("the server is down".into()));
            }
            let query = request.uri().query().unwrap_or_default();
            if server.silent_parts.lock().iter().any(|part| query.contains(part)) {
                return std::future::pending().await;
            }
            let is_refused = server.is_forbidden.load(Ordering::Relaxed)
                || server.refused_parts.lock().iter().any(|part| query.contains(part))
                || query.contains("watch=") && server.is_unwatchable.load(Ordering::Relaxed);
            let (code, body) = match *request.method() {
                Method::GET if is_refused => {
                    server.refused.fetch_add(1, Ordering::Relaxed);
                    (403, whole(&json!({"kind": "Status", "code": 403})))
                }
                Method::GET if query.contains("watch=") => (200, server.watch()),
                Method::GET => {
                    server.queries.lock().push(query.to_owned());
                    let items = if server.lists { vec![Server::held()] } else { vec![] };
                    (200, whole(&json!({"metadata": {"resourceVersion": "9"}, "items": items})))
                }
                _ if server.goes_down_at_write.swap(false, Ordering::Relaxed) => {
                    server.is_down.store(true, Ordering::Relaxed);
                    server.watches.lock().clear();
                    // The informers notice before the response has arrived.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    (server.answer.0, whole(&server.answer.1))
                }
                _ if server.answer.0 == 1 => std::future::pending().await,
                _ if server.answer.0 == 2 => {
                    let sent = tokio::time::Instant::now();
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    return Err(TransportError::Silent { sent, source: "no pong".into() });
                }
                _ if server.answer.0 == 0 => return Err(TransportError::Lost("no answer".into())),
                _ => (server.answer.0, whole(&server.answer.1)),
            };
            Ok(http::Response::builder().status(code).body(body).unwrap())
        })
    }
}

fn context(server: &Arc<Server>) -> Context {
    let client = Client::new(Arc::new(Wire(server.clone())), ClientOptions::default());
    crate::scripted::context_of(client).0
}

/// The owner must wait until the cache has received the deletion of the object.
async fn waits_until_it_is_gone(cx: &Context, server: &Server, owner: &Key) {
    let lowered = cx.barrier.lowered(owner);
    tokio::pin!(lowered);
    assert!(timeout(Duration::from_secs(5), &mut lowered).await.is_err(), "the cache still shows it");
    server.send_event("DELETED", &Server::object("7", json!([])));
    timeout(Duration::from_secs(1), lowered).await.expect("the cache has let go of it");
    assert!(!cx.barrier.is_raised(owner));
}

fn not_found(name: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found",
        "details": {"name": name, "group": "example.com", "kind": "things"}})
}

#[tokio::test(start_paused = true)]
async fn after_its_last_finalizer_an_object_is_waited_for_until_it_leaves_the_cache() {
    let server = Server::answering(200, Server::object("5", json!([])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch, "it is done with").await.unwrap();
    waits_until_it_is_gone(&cx, &server, &owner).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_server_lacks_is_waited_for_until_the_cache_lacks_it_too() {
    let server = Server::answering(404, not_found("t"));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let gone =
        cx.writer(&owner).delete(&Thing::TYPE, &key, DeleteOptions::default(), "it is in the way").await;
    assert!(gone.unwrap_err().is_not_found());
    waits_until_it_is_gone(&cx, &server, &owner).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_resource_says_nothing_about_the_object() {
    let server = Server::answering(404, not_found(""));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, Some("scale"), patch, "it should grow").await.unwrap_err();
    assert!(!cx.barrier.is_raised(&owner));
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_is_read_from_the_server_and_a_deletion_then_waited_for() {
    let mut server = Server::answering(0, Value::Null);
    Arc::get_mut(&mut server).unwrap().lists = false;
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let lost = cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch, "it is done with").await;
    assert!(lost.unwrap_err().outcome_unknown());
    // That the cache shows it as being deleted is not enough: the server no longer has it.
    waits_until_it_is_gone(&cx, &server, &owner).await;
}

/// As by an aggregated API without field selectors.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_read_is_waited_for_until_one_new_list() {
    let server = Server::answering(0, Value::Null);
    server.refused_parts.lock().push("metadata.name".to_owned());
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    cx.writer(&owner)
        .patch(&Thing::TYPE, &key, None, Patch::Merge(json!({})), "it changes")
        .await
        .unwrap_err();
    let lowered = cx.barrier.lowered(&owner);
    timeout(PATIENCE + Duration::from_secs(1), lowered).await.expect("a list shows the outcome, too");
    assert_eq!(relists(&cx), 1);
    let reads = server.refused.load(Ordering::Relaxed);
    assert!((2..=6).contains(&reads), "{reads} attempts");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_cancelled_write_is_read_from_the_server() {
    // The server does not respond, and the object is gone.
    let mut server = Server::answering(1, Value::Null);
    Arc::get_mut(&mut server).unwrap().lists = false;
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let writer = cx.writer(&owner);
    let resource = Thing::TYPE;
    let write = writer.delete(&resource, &key, DeleteOptions::default(), "it is in the way");
    assert!(timeout(Duration::from_secs(1), write).await.is_err(), "no answer");
    waits_until_it_is_gone(&cx, &server, &owner).await;
}

/// Such as when a controller is set up again, after the grace period of ten seconds, while the server does not respond.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_write_that_is_cancelled_late_is_read_when_it_can_no_longer_change() {
    let mut server = Server::answering(1, Value::Null);
    Arc::get_mut(&mut server).unwrap().lists = false;
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let (writer, resource) = (cx.writer(&owner), Thing::TYPE);
    let write = writer.delete(&resource, &key, DeleteOptions::default(), "it is in the way");
    assert!(timeout(Duration::from_secs(10), write).await.is_err(), "no answer");
    assert!(timeout(Duration::from_secs(59), cx.barrier.lowered(&owner)).await.is_err());
    assert_eq!(server.queries.lock().len(), 0, "it may still be carried out");
    tokio::time::sleep(Duration::from_secs(1)).await;
    waits_until_it_is_gone(&cx, &server, &owner).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_caches_a_part_of_a_resource_waits_for_that() {
    let written = Server::object("7", json!(["example.com/mine"]));
    let server = Server::answering(200, written.clone());
    let cx = context(&server);
    let part = Filter { fields: Some("metadata.name=t".into()), ..Filter::default() };
    let cache: Arc<dyn AnyInformer> = cx.informers.filtered::<Thing>(part);
    cx.needs(&cache);
    cache.synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch, "it changes").await.unwrap();
    assert!(cx.barrier.is_raised(&owner), "a restore that undoes the write must not go unnoticed");
    server.send_event("MODIFIED", &written);
    timeout(Duration::from_secs(1), cx.barrier.lowered(&owner)).await.expect("the cache shows it");
}

/// How many lists the cache has taken after its first.
fn relists(cx: &Context) -> u64 {
    cx.informer::<Thing>().counts().relists
}

#[tokio::test(start_paused = true)]
async fn a_version_that_never_comes_is_waited_for_until_one_new_list() {
    let server = Server::answering(200, Server::object("1000", json!(["example.com/mine"])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch, "it changes").await.unwrap();
    assert!(cx.barrier.is_raised(&owner));
    timeout(Duration::from_secs(60), cx.barrier.lowered(&owner)).await.expect("it does not wait for ever");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        relists(&cx),
        2,
        "the list shows a restore, so all caches are listed once more, and not over and over"
    );
    assert!(!cx.barrier.is_raised(&owner));
}

/// No cache had shown the write, so none is ahead of the server.
#[tokio::test(start_paused = true)]
async fn a_write_that_a_restore_has_undone_is_not_waited_for_until_patience_ends() {
    let server = Server::answering(200, Server::object("1000", json!(["example.com/mine"])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch, "it changes").await.unwrap();
    assert!(cx.barrier.is_raised(&owner));
    let lowered = cx.barrier.lowered(&owner);
    tokio::pin!(lowered);
    assert!(timeout(Duration::from_secs(5), &mut lowered).await.is_err(), "the watch may be late");
    // The server is at version 9 when the watch is to be opened again.
    server.watches.lock().clear();
    timeout(Duration::from_secs(3), lowered).await.expect("the restore ends the wait");
    assert_eq!((relists(&cx), cx.informers.era()), (1, 1));
    // Versions from before the restore are no longer evidence.
    server.watches.lock().clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((relists(&cx), cx.informers.era()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_response_with_an_old_version_blocks_all_keys_until_everything_is_listed_again() {
    // The cache has reached version 6, and holds the object in version 5.
    let server = Server::answering(200, Server::object("3", json!(["example.com/mine"])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, other, key) = (Key::new("ns", "owner"), Key::new("ns", "other"), Key::new("ns", "t"));
    let patch = || Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch(), "it changes").await.unwrap();
    assert!(cx.barrier.is_raised(&owner) && cx.barrier.is_raised(&other));
    timeout(Duration::from_secs(5), cx.barrier.lowered(&owner)).await.expect("the list has come");
    assert!(!cx.barrier.is_raised(&owner) && !cx.barrier.is_raised(&other));
    assert_eq!(relists(&cx), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changed_nothing_is_no_sign_of_a_restore() {
    let server = Server::answering(200, Server::object("5", json!(["example.com/mine"])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch, "it stays").await.unwrap();
    assert!(!cx.barrier.is_raised(&owner));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(relists(&cx), 0);
}

#[tokio::test(start_paused = true)]
async fn a_creation_of_unknown_outcome_is_settled_at_once_also_on_a_quiet_resource() {
    let server = Server::answering(0, Value::Null);
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let owner = Key::new("ns", "owner");
    let body = json!({"metadata": {"generateName": "t-", "namespace": "ns"}}).to_string();
    let lost =
        cx.writer(&owner).create(&Thing::TYPE, &Key::new("ns", "t-*"), body.into(), "one is missing").await;
    assert!(lost.unwrap_err().outcome_unknown());
    // The watch sends nothing: the resource is quiet.
    let lowered = timeout(Duration::from_secs(1), cx.barrier.lowered(&owner));
    lowered.await.expect("the cache was listed after the creation");
    let queries = server.queries.lock().clone();
    assert!(matches!(&queries[..], [one] if one.contains("limit=1")), "{queries:?}");
    assert_eq!(relists(&cx), 1);
}

/// The server does not know that the connection is dead, and works on the request while webhooks are slow: a pod that is
/// created 55 s after the request was sent must be counted, or a second one is created.
#[tokio::test(start_paused = true)]
async fn a_creation_whose_connection_fell_silent_is_looked_for_when_it_can_no_longer_be_made() {
    let server = Server::answering(2, Value::Null);
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, sent) = (Key::new("ns", "owner"), tokio::time::Instant::now());
    let body = json!({"metadata": {"generateName": "t-", "namespace": "ns"}}).to_string();
    let lost =
        cx.writer(&owner).create(&Thing::TYPE, &Key::new("ns", "t-*"), body.into(), "one is missing").await;
    assert!(lost.unwrap_err().outcome_unknown());
    let lowered = cx.barrier.lowered(&owner);
    tokio::pin!(lowered);
    assert!(timeout(Duration::from_secs(35), &mut lowered).await.is_err());
    // Also if the cache is listed anew meanwhile: the list does not have it yet.
    cx.informer::<Thing>().refresh();
    assert!(timeout(Duration::from_millis(4900), &mut lowered).await.is_err(), "it may still be made");
    assert!(
        !server.queries.lock().iter().any(|query| query.contains("limit=1")),
        "a read would be too early"
    );
    timeout(Duration::from_secs(2), lowered).await.expect("it was made, or never will be");
    assert!(sent.elapsed() >= flyball_client::CARRIED_OUT_WITHIN);
    assert!(server.queries.lock().iter().any(|query| query.contains("limit=1")), "{:?}", server.queries);
}

fn panics(cx: &Context, place: &str) -> bool {
    let count = format!("flyball_controller_panics_total{{name=\"test\",place=\"{place}\"}} 1");
    cx.metrics.text().lines().any(|line| line == count)
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_task_aside_is_counted_and_changes_nothing_else() {
    let cx = Arc::new(context(&Server::answering(200, Value::Null)));
    cx.run_aside("relay", async { panic!("a bug") });
    let set_up_again = timeout(Duration::from_secs(1), cx.panics.reported()).await;
    assert!(set_up_again.is_err() && panics(&cx, "aside"), "{}", cx.metrics.text());
}

/// Before informers connect, queues requeue keys: keys that a panic has lost are found when the controller is set up again.
#[tokio::test(start_paused = true)]
async fn a_panic_of_what_a_controller_does_for_an_informer_is_reported() {
    let cx = context(&Server::answering(200, Value::Null));
    cx.call_guarded("requeue", || panic!("a bug"));
    let place = timeout(Duration::from_secs(1), cx.panics.reported()).await.expect("it is set up again");
    assert!(place == crate::Place::Trigger && panics(&cx, "trigger"), "{}", cx.metrics.text());
}

struct Never;

impl crate::Reconcile for Never {
    async fn sync(&self, _: &Key) -> Result<crate::Next, crate::SyncError> {
        unreachable!("the key is barred")
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_is_parked_once_however_often_it_is_added() {
    let mut server = Server::answering(0, Value::Null);
    Arc::get_mut(&mut server).unwrap().lists = false;
    let cx = Arc::new(context(&server));
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = Patch::Merge(json!({}));
    cx.writer(&owner).patch(&Thing::TYPE, &key, None, patch, "it changes").await.unwrap_err();
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let queue = tasks.queue::<Key>("test");
    tasks.workers(&queue, 3, Arc::new(Never));
    let running = tasks.start(None).await;
    for _ in 0..100 {
        queue.add(owner.clone(), flyball_queue::Priority::Change);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(server.queries.lock().len(), 1);
    drop(running);
}

/// Patches an object in its first sync. Each sync waits to be allowed to end.
struct Patching {
    cx: Arc<Context>,
    syncs: AtomicUsize,
    ends: tokio::sync::Semaphore,
}

impl crate::Reconcile for Patching {
    async fn sync(&self, key: &Key) -> Result<crate::Next, crate::SyncError> {
        if self.syncs.fetch_add(1, Ordering::Relaxed) == 0 {
            let (target, patch) = (Key::new("ns", "t"), Patch::Merge(json!({})));
            self.cx.writer(key).patch(&Thing::TYPE, &target, None, patch, "it changes").await.unwrap();
        }
        self.ends.acquire().await.unwrap().forget();
        Ok(crate::Next::Settled)
    }
}

/// How often a key is synced whose write has version 7, if the cache then shows version 8. `disturb` is called in between, and
/// the sync ends before or after it.
async fn syncs_after(ends_before: bool, disturb: impl AsyncFn(&Server)) -> usize {
    let server = Server::answering(200, Server::object("7", json!(["example.com/mine"])));
    let cx = Arc::new(context(&server));
    cx.informer::<Thing>().synced().await;
    let ends = tokio::sync::Semaphore::new(usize::from(ends_before));
    let reconciler = Arc::new(Patching { cx: cx.clone(), syncs: Default::default(), ends });
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let queue = tasks.queue::<Key>("test");
    tasks.workers(&queue, 1, reconciler.clone());
    let _running = tasks.start(None).await;
    queue.add(Key::new("ns", "owner"), flyball_queue::Priority::Change);
    tokio::time::sleep(Duration::from_secs(1)).await;
    disturb(&server).await;
    let mut other = Server::object("8", json!(["example.com/mine"]));
    other["metadata"]["name"] = "other".into();
    server.send_event("ADDED", &other);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!cx.barrier.is_raised(&Key::new("ns", "owner")), "the cache has reached version 8");
    reconciler.ends.add_permits(10);
    tokio::time::sleep(Duration::from_secs(60)).await;
    reconciler.syncs.load(Ordering::Relaxed)
}

/// The server may have been restored to a version before the write, and have caught up since.
#[tokio::test(start_paused = true)]
async fn a_key_is_synced_again_if_an_informer_reconnects_before_the_cache_shows_its_write() {
    let reconnect = async |server: &Server| {
        server.watches.lock().clear();
        while server.watches.lock().is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    for ends_before in [true, false] {
        assert_eq!(syncs_after(ends_before, async |_| {}).await, 1, "the watch stays");
        assert_eq!(syncs_after(ends_before, reconnect).await, 2, "the watch breaks off once");
    }
}

struct Writing(Arc<Context>);

impl crate::Reconcile for Writing {
    async fn sync(&self, key: &Key) -> Result<crate::Next, crate::SyncError> {
        let (target, patch) = (Key::new("ns", "t"), Patch::Merge(json!({})));
        // What is of interest is whether its outcome is known.
        let _ = self.0.writer(key).patch(&Thing::TYPE, &target, None, patch, "it changes").await;
        Ok(crate::Next::Settled)
    }
}

/// If the lease is released, another process acts at once, and may do the same again.
#[tokio::test(start_paused = true)]
async fn a_controller_ends_in_good_order_only_if_the_outcome_of_each_write_is_known() {
    use crate::Ended;
    #[rustfmt::skip]
    let table = [
        // case                              answer                                               ended
        ("written",                          (200, Server::object("7", json!(["example.com/x"]))),  Ended::Orderly),
        ("refused",                          (403, Value::Null),                                    Ended::Orderly),
        ("no response yet",                  (1,   Value::Null),                                    Ended::Cancelled),
        ("the response was lost",            (0,   Value::Null),                                    Ended::WritesUnknown),
    ];
    for (case, (code, answer), want) in table {
        let server = Server::answering(code, answer);
        // So that the outcome cannot be read.
        server.refused_parts.lock().push("metadata.name".to_owned());
        let cx = Arc::new(context(&server));
        cx.informer::<Thing>().synced().await;
        let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
        let queue = tasks.queue::<Key>("test");
        tasks.workers(&queue, 1, Arc::new(Writing(cx.clone())));
        let running = tasks.start(None).await;
        queue.add(Key::new("ns", "owner"), flyball_queue::Priority::Change);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(running.drain(Duration::from_secs(1)).await, want, "{case}");
    }
}

/// A key that waits for a cache to become current has written nothing.
#[tokio::test(start_paused = true)]
async fn a_controller_that_only_waits_for_its_cache_ends_in_good_order() {
    let server = Server::answering(0, Value::Null);
    let cx = Arc::new(context(&server));
    cx.informer::<Thing>().synced().await;
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let queue = tasks.queue::<Key>("test");
    tasks.workers(&queue, 1, Arc::new(Patient { cx: cx.clone(), syncs: Default::default() }));
    let running = tasks.start(None).await;
    server.refused_parts.lock().push("limit=1".to_owned());
    queue.add(Key::new("ns", "owner"), flyball_queue::Priority::Change);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(cx.barrier.is_raised(&Key::new("ns", "owner")));
    assert_eq!(running.drain(Duration::from_secs(1)).await, crate::Ended::Orderly);
}

/// The outcome cannot be read, but by now the server has carried the write out, or never will.
#[tokio::test(start_paused = true)]
async fn a_response_that_was_lost_long_ago_does_not_matter_at_the_end() {
    let server = Server::answering(0, Value::Null);
    let cx = Arc::new(context(&server));
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let writer = cx.writer(&owner).without_barrier();
    let lost = writer.patch(&Thing::TYPE, &key, None, Patch::Merge(json!({})), "it changes").await;
    assert!(lost.unwrap_err().outcome_unknown());
    assert!(cx.pending_writes.may_be_under_way(), "also if no key waits for it");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!cx.pending_writes.may_be_under_way());
}

/// Needs the cache to be current, once.
struct Patient {
    cx: Arc<Context>,
    syncs: AtomicUsize,
}

impl crate::Reconcile for Patient {
    async fn sync(&self, key: &Key) -> Result<crate::Next, crate::SyncError> {
        match self.syncs.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(self.cx.sync_when_current::<Thing>(key)),
            _ => Ok(crate::Next::Settled),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_needs_a_current_cache_is_repeated_once_it_is() {
    let server = Server::answering(0, Value::Null);
    let cx = Arc::new(context(&server));
    let things = cx.informer::<Thing>();
    things.synced().await;
    let reconciler = Arc::new(Patient { cx: cx.clone(), syncs: Default::default() });
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let queue = tasks.queue::<Key>("test");
    tasks.workers(&queue, 1, reconciler.clone());
    let _running = tasks.start(None).await;
    // The server has version 9, of which the watch shows nothing.
    server.version.store(9, Ordering::Relaxed);
    assert_eq!(things.version_reached(), ResourceVersion(6));
    queue.add(Key::new("ns", "owner"), flyball_queue::Priority::Change);
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The list may requeue the key once more, as every connection does.
    let syncs = reconciler.syncs.load(Ordering::Relaxed);
    assert!((2..=3).contains(&syncs), "{syncs}");
    assert_eq!((things.version_reached(), relists(&cx)), (ResourceVersion(9), 1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(reconciler.syncs.load(Ordering::Relaxed), syncs, "it is settled");
}
