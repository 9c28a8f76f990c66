//! Informers that read protobuf: what one object costs that cannot be read so, and how an informer falls back to JSON.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::protobuf::sample::{envelope, event, field};
use flyball_api::{Key, Pod, ReplicaSet, Resource};
use flyball_client::{Body, Client, ClientOptions, Transport, TransportError};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::settle;
use crate::{Informer, InformerOptions, Informers};

/// The shortest delay after a first failure.
const FIRST_DELAY: Duration = Duration::from_millis(800);

/// A watch with these bytes, which stays open; or a response to anything else.
enum Answer {
    Watch { protobuf: bool, body: Vec<u8> },
    Page(String),
    Refusal(u16),
}

/// Answers requests in order, and then never.
#[derive(Clone, Default)]
struct Wire {
    answers: Arc<Mutex<std::collections::VecDeque<Answer>>>,
    /// When each request came, and which formats it accepts.
    accepts: Arc<Mutex<Vec<(Instant, String)>>>,
    open: Arc<Mutex<Vec<UnboundedSender<Vec<u8>>>>>,
}

impl Wire {
    fn answering(answers: Vec<Answer>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into())), ..Self::default() }
    }

    fn informer(&self) -> Arc<Informer<Pod>> {
        self.informer_of()
    }

    fn informer_of<T: Resource>(&self) -> Arc<Informer<T>> {
        let options = ClientOptions { qps: 0.0, protobuf: true, ..ClientOptions::default() };
        let informers =
            Informers::new(Client::new(Arc::new(self.clone()), options), InformerOptions::default());
        informers.get::<T>()
    }

    /// Sends more on the latest watch.
    fn send(&self, bytes: Vec<u8>) {
        self.open.lock().last().unwrap().unbounded_send(bytes).unwrap();
    }

    /// `protobuf` or `json` for each request.
    fn requested(&self) -> Vec<&'static str> {
        let accepts = self.accepts.lock();
        let encoding = |accept: &str| if accept.contains("protobuf") { "protobuf" } else { "json" };
        accepts.iter().map(|(_, accept)| encoding(accept)).collect()
    }

    /// The shortest time between two requests.
    fn shortest_pause(&self) -> Duration {
        let accepts = self.accepts.lock();
        accepts.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap()
    }
}

impl Transport for Wire {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let accept = request.headers()[http::header::ACCEPT].to_str().unwrap().to_owned();
        self.accepts.lock().push((Instant::now(), accept));
        let answer = self.answers.lock().pop_front();
        let open = self.open.clone();
        async move {
            let (code, protobuf, receiver) = match answer {
                None => std::future::pending().await,
                Some(Answer::Refusal(code)) => (code, false, unbounded().1),
                Some(Answer::Page(body)) => {
                    let (sender, receiver) = unbounded();
                    sender.unbounded_send(body.into_bytes()).unwrap();
                    (200, false, receiver)
                }
                Some(Answer::Watch { protobuf, body }) => {
                    let (sender, receiver): (_, UnboundedReceiver<Vec<u8>>) = unbounded();
                    sender.unbounded_send(body).unwrap();
                    open.lock().push(sender);
                    (200, protobuf, receiver)
                }
            };
            let frames = receiver.map(|bytes| Ok(http_body::Frame::data(Bytes::from(bytes))));
            let media = if protobuf { "vnd.kubernetes.protobuf" } else { "json" };
            let content_type = format!("application/{media};stream=watch");
            let response = http::Response::builder().status(code).header("content-type", content_type);
            Ok(response.body(StreamBody::new(frames).boxed_unsync()).unwrap())
        }
        .boxed()
    }
}

/// A pod with a field in its metadata (from the field on) and one in its spec.
fn pod(name: &str, version: &str, spec: &[u8]) -> Vec<u8> {
    let meta = [field(1, name), field(3, "a"), field(5, format!("uid-{name}")), field(6, version)].concat();
    envelope("v1", "Pod", [field(1, meta), field(2, spec)].concat())
}

/// In the security context, which is kept as JSON.
fn unknown_field() -> Vec<u8> {
    field(14, field(15, "news"))
}

fn end_of_list(version: &str) -> Vec<u8> {
    let mark = field(12, [field(1, "k8s.io/initial-events-end"), field(2, "true")].concat());
    event("BOOKMARK", envelope("v1", "Pod", field(1, [field(6, version), mark].concat())))
}

fn json(objects: &[&str]) -> Vec<u8> {
    let added = objects.iter().map(|object| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"));
    let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"20","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    format!("{}{end}\n", added.collect::<String>()).into_bytes()
}

fn protobuf(events: &[Vec<u8>]) -> Answer {
    Answer::Watch { protobuf: true, body: events.concat() }
}

fn names(informer: &Informer<Pod>) -> Vec<String> {
    let mut names: Vec<_> = informer.store().list().iter().map(|pod| pod.metadata.name.to_string()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_field_that_would_be_lost_makes_the_resource_json_once() {
    let news = r#"{"metadata":{"name":"new","namespace":"a","uid":"uid-new","resourceVersion":"8"},"spec":{"securityContext":{"news":1}}}"#;
    let old = r#"{"metadata":{"name":"old","namespace":"a","uid":"uid-old","resourceVersion":"7"}}"#;
    let wire = Wire::answering(vec![
        protobuf(&[
            event("ADDED", pod("old", "7", &[])),
            event("ADDED", pod("new", "8", &unknown_field())),
            end_of_list("9"),
        ]),
        Answer::Watch { protobuf: false, body: json(&[old, news]) },
    ]);
    let informer = wire.informer();
    assert!(informer.synced().await);
    assert_eq!(names(&informer), ["new", "old"]);
    assert_eq!(wire.requested(), ["protobuf", "json"]);
    let new = informer.store().get(&Key::new("a", "new")).unwrap();
    assert_eq!(new.spec.rare().security_context.as_ref().unwrap().as_str(), r#"{"news":1}"#);
    let counts = informer.counts();
    assert_eq!((counts.json_fallbacks, counts.failures, counts.decode_failures), (1, 1, 0));
    assert!(informer.health().failing.is_none());
    assert!(wire.shortest_pause() >= FIRST_DELAY);
}

#[tokio::test(start_paused = true)]
async fn it_may_happen_in_a_watch_and_in_a_deletion() {
    for type_ in ["ADDED", "MODIFIED", "DELETED"] {
        let old = r#"{"metadata":{"name":"old","namespace":"a","uid":"uid-old","resourceVersion":"12"}}"#;
        let wire = Wire::answering(vec![
            protobuf(&[event("ADDED", pod("old", "7", &[])), end_of_list("9")]),
            // The server might be restored during the delay, so its version is read first.
            Answer::Page(format!(r#"{{"metadata":{{"resourceVersion":"12"}},"items":[{old}]}}"#)),
            Answer::Watch { protobuf: false, body: json(&[old]) },
        ]);
        let informer = wire.informer();
        assert!(informer.synced().await);
        wire.send(event(type_, pod("old", "10", &unknown_field())));
        tokio::time::sleep(2 * FIRST_DELAY).await;
        assert_eq!(wire.requested(), ["protobuf", "json", "json"], "{type_}");
        let held = informer.store().get(&Key::new("a", "old")).unwrap();
        assert_eq!(held.metadata.resource_version.0, 12, "{type_}");
        assert_eq!(informer.counts().json_fallbacks, 1, "{type_}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_bad_in_both_encodings_costs_only_itself() {
    // Its version is no number.
    let wire = Wire::answering(vec![protobuf(&[
        event("ADDED", pod("bad", "x", &[])),
        event("ADDED", pod("good", "8", &[])),
        end_of_list("9"),
    ])]);
    let informer = wire.informer();
    assert!(informer.synced().await);
    assert_eq!(names(&informer), ["good"]);
    assert_eq!(informer.store().undecodable(), [Key::new("a", "bad")]);
    wire.send(event("MODIFIED", pod("good", "10", &field(10, "node-1"))));
    settle().await;
    assert_eq!(informer.store().get(&Key::new("a", "good")).unwrap().spec.node_name, "node-1");
    assert_eq!((wire.requested(), informer.counts().json_fallbacks), (vec!["protobuf"], 0));
}

#[tokio::test(start_paused = true)]
async fn protobuf_that_is_none_and_servers_that_refuse_it_are_asked_for_json() {
    let good = || Answer::Watch { protobuf: false, body: json(&[]) };
    let table = [
        ("not an envelope", protobuf(&[event("ADDED", b"{}")])),
        ("an unknown kind", protobuf(&[event("ADDED", envelope("v1", "News", []))])),
        ("not acceptable", Answer::Refusal(406)),
    ];
    for (case, first) in table {
        let wire = Wire::answering(vec![first, good()]);
        let informer = wire.informer();
        assert!(informer.synced().await, "{case}");
        assert_eq!(wire.requested(), ["protobuf", "json"], "{case}");
        assert_eq!(informer.counts().json_fallbacks, 1, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_moved_to_json_is_not_asked_in_a_loop() {
    let bad = || protobuf(&[event("ADDED", pod("new", "8", &unknown_field()))]);
    let wire = Wire::answering((0..100).map(|_| bad()).collect());
    let informer = wire.informer();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!informer.has_synced());
    let requests = wire.requested().len();
    assert!((3..30).contains(&requests), "{requests} requests in a minute");
    assert_eq!(informer.counts().json_fallbacks, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_json_is_not_blamed_on_protobuf() {
    let garbage = || Answer::Watch { protobuf: false, body: b"<html>\n".to_vec() };
    let good = || Answer::Watch { protobuf: false, body: json(&[]) };

    // A kind that is read as JSON anyway.
    let wire = Wire::answering(vec![garbage(), Answer::Refusal(406), good()]);
    let informer = wire.informer_of::<ReplicaSet>();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((informer.counts().json_fallbacks, wire.requested()[0]), (0, "json"));

    // A server that ignores that protobuf was requested: the next answer may well be protobuf.
    let wire = Wire::answering(vec![garbage(), protobuf(&[end_of_list("9")])]);
    let informer = wire.informer();
    assert!(informer.synced().await);
    assert_eq!((informer.counts().json_fallbacks, wire.requested()), (0, vec!["protobuf"; 2]));
    assert!(wire.shortest_pause() >= FIRST_DELAY);
}
