//! Which encoding is requested, and how responses in protobuf are read.

use flyball_api::protobuf::sample::{envelope, event, field, number};
use flyball_api::{ConfigMap, Key, PartialObject, Pod, ReplicaSet, ResourceType, ResourceVersion};
use futures::StreamExt;
use serde_json::json;

use crate::encoding::Encoding;
use crate::fake::{Act, Log, fake, ok};
use crate::frames::{EventKind, Frames, Oversized};
use crate::request::{Accept, DeleteOptions, ListParams, Request, Verb, WatchParams};
use crate::{Client, ClientOptions, Error};

const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);
const WIDGETS: ResourceType = ResourceType::new("example.com", "v1", "widgets", "Widget", true);
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

fn scripted(protobuf: bool, acts: Vec<Act>) -> (Client, Log) {
    let (transport, log) = fake(move |_, n| acts.get(n).cloned().unwrap_or(Act::Lose));
    (Client::new(transport, ClientOptions { qps: 0.0, protobuf, ..ClientOptions::default() }), log)
}

fn accepts(log: &Log) -> Vec<String> {
    log.all().iter().map(|seen| seen.header("accept").to_owned()).collect()
}

/// `spec` is that of a pod.
fn pod(name: &str, version: &str, spec: &[u8]) -> Vec<u8> {
    [field(1, [field(1, name), field(6, version)].concat()), field(2, spec)].concat()
}

/// A field that the schema does not have, in the security context of a pod, which is kept as JSON.
fn news() -> Vec<u8> {
    field(14, field(15, "news"))
}

fn whole(object: Vec<u8>) -> Act {
    Act::Protobuf(200, vec![object])
}

#[tokio::test(start_paused = true)]
async fn protobuf_is_requested_where_client_resource_and_caller_support_it() {
    let key = Key::new("a", "b");
    let get = |resource: &ResourceType| Request::object(Verb::Get, resource, &key, None);
    let (client, log) = scripted(true, vec![ok(r#"{"metadata":{"name":"b"}}"#); 9]);
    client.get::<Pod>(&key).await.unwrap();
    client.get::<ReplicaSet>(&key).await.unwrap();
    client.get_dynamic(&PODS, &key).await.unwrap();
    client.object::<PartialObject>(get(&WIDGETS)).await.unwrap();
    client.object::<PartialObject>(get(&WIDGETS).accept(Accept::Metadata)).await.unwrap();
    // A write cannot be repeated, so only its metadata is protobuf.
    client.create::<Pod>("a", &json!({})).await.unwrap();
    let create = Request::collection(Verb::Create, &PODS, Some("a")).accept(Accept::Metadata);
    client.object_with::<PartialObject>(create, &json!({})).await.unwrap();
    client.delete_dynamic(&PODS, &key, &DeleteOptions::default()).await.unwrap();
    client
        .list_as::<Pod>(&PODS, None, &ListParams { protobuf: true, ..ListParams::default() })
        .await
        .unwrap();
    let json = "application/json";
    assert_eq!(accepts(&log), [PROTOBUF, json, json, json, METADATA, json, METADATA, METADATA, json]);

    let (client, log) = scripted(false, vec![ok(r#"{"metadata":{"name":"b"}}"#); 2]);
    client.get::<Pod>(&key).await.unwrap();
    client.list::<Pod>(None, &ListParams::default()).await.unwrap();
    assert_eq!(accepts(&log), [json, json]);
}

#[tokio::test(start_paused = true)]
async fn objects_and_lists_are_read_from_protobuf() {
    let meta = [field(2, "9"), field(3, "more"), number(4, 3)].concat();
    let list = [field(1, meta), field(2, pod("a", "7", &[])), field(2, pod("b", "8", &[]))].concat();
    let partial = field(1, field(1, "a"));
    let status = [field(2, "Success")].concat();
    let (client, _) = scripted(
        true,
        vec![
            whole(envelope("v1", "Pod", pod("a", "7", &field(10, "node-1")))),
            whole(envelope("v1", "PodList", list)),
            whole(envelope("meta.k8s.io/v1", "PartialObjectMetadata", partial)),
            whole(envelope("v1", "Status", status)),
        ],
    );
    let key = Key::new("x", "a");
    let read: Pod = client.get(&key).await.unwrap();
    assert_eq!((read.metadata.name.as_str(), read.spec.node_name.as_str()), ("a", "node-1"));
    let list = client.list::<Pod>(None, &ListParams::default()).await.unwrap();
    let names: Vec<_> = list.items.iter().map(|pod| pod.metadata.name.as_str()).collect();
    assert_eq!(
        (names, list.resource_version, list.continue_.as_deref(), list.remaining),
        (vec!["a", "b"], ResourceVersion(9), Some("more"), Some(3))
    );
    let deleted = client.delete_dynamic(&PODS, &key, &DeleteOptions::default()).await.unwrap();
    assert_eq!(deleted.meta().unwrap().name, "a");
    let deleted = client.delete_dynamic(&PODS, &key, &DeleteOptions::default()).await.unwrap();
    assert!(deleted.object.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_protobuf_would_lose_is_read_again_as_json() {
    let object = r#"{"metadata":{"name":"a"},"spec":{"securityContext":{"news":1}}}"#;
    let (client, log) = scripted(
        true,
        vec![
            whole(envelope("v1", "Pod", pod("a", "7", &news()))),
            ok(object),
            whole(envelope("v1", "PodList", field(2, pod("a", "7", &news())))),
            ok(format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{object}]}}"#)),
            // Not even an envelope.
            whole(b"k8s\0\x0a\xff".to_vec()),
            Act::Reply(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#.into()),
        ],
    );
    let kept = |pod: &Pod| pod.spec.rare().security_context.as_ref().map(|json| json.as_str().to_owned());
    let read: Pod = client.get(&Key::new("x", "a")).await.unwrap();
    assert_eq!(kept(&read).as_deref(), Some(r#"{"news":1}"#));
    let list = client.list::<Pod>(None, &ListParams::default()).await.unwrap();
    assert_eq!(kept(&list.items[0]).as_deref(), Some(r#"{"news":1}"#));
    assert!(client.get::<Pod>(&Key::new("x", "a")).await.unwrap_err().is_not_found());
    let json = "application/json";
    assert_eq!(accepts(&log), [PROTOBUF, json, PROTOBUF, json, PROTOBUF, json]);
}

#[tokio::test(start_paused = true)]
async fn reads_that_are_refused_because_of_protobuf_are_repeated_as_json() {
    let json = "application/json";
    for code in [406, 415] {
        let refused = || Act::Reply(code, String::new());
        let object = r#"{"metadata":{"name":"a"}}"#;
        let list = format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{object}]}}"#);
        let (client, log) = scripted(
            true,
            vec![refused(), ok(object), refused(), ok(list), refused(), refused(), refused(), refused()],
        );
        let key = Key::new("x", "a");
        assert_eq!(client.get::<Pod>(&key).await.unwrap().metadata.name, "a");
        let list = client.list::<Pod>(None, &ListParams::default()).await.unwrap();
        assert_eq!(list.items.len(), 1);
        // Once only; not if JSON was requested anyway; and never for a write.
        assert_eq!(client.get::<Pod>(&key).await.unwrap_err().code(), Some(code));
        assert_eq!(client.get::<ReplicaSet>(&key).await.unwrap_err().code(), Some(code));
        let refusal = client.delete_dynamic(&PODS, &key, &DeleteOptions::default()).await.unwrap_err();
        assert_eq!(refusal.code(), Some(code));
        assert_eq!(accepts(&log), [PROTOBUF, json, PROTOBUF, json, PROTOBUF, json, json, METADATA]);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_name_the_encoding_that_could_not_be_read() {
    let (client, _) = scripted(true, vec![whole(b"k8s\0\x0a\xff".to_vec()), ok("<html>"), ok("<html>\n")]);
    let all = ListParams { protobuf: true, ..ListParams::default() };
    let suggests = |error: Error| error.suggests_json();
    assert!(client.list_raw(&PODS, None, &all).await.map_err(suggests).unwrap_err());
    // The server answered JSON although protobuf was requested.
    assert!(!client.list_raw(&PODS, None, &all).await.map_err(suggests).unwrap_err());
    let params = WatchParams { protobuf: true, ..WatchParams::default() };
    let mut events = client.watch(&PODS, &params).await.unwrap();
    assert!(!events.next().await.unwrap().map_err(suggests).unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn errors_are_read_in_the_encoding_that_was_requested() {
    let details = field(
        5,
        [field(1, "a"), field(4, [field(1, "Why"), field(2, "because")].concat()), number(5, 7)].concat(),
    );
    let status = [field(3, "no such pod"), field(4, "NotFound"), details, number(6, 404)].concat();
    let (client, _) = scripted(true, vec![Act::Protobuf(404, vec![envelope("v1", "Status", status)])]);
    let error = client.get::<Pod>(&Key::new("x", "a")).await.unwrap_err();
    assert!(error.is_not_found() && error.has_cause("Why"), "{error:?}");
    assert_eq!(error.to_string(), "no such pod");
    assert_eq!(error.retry_after().map(|wait| wait.as_secs()), Some(7));
}

async fn watched(body: Vec<Vec<u8>>) -> Vec<Result<(EventKind, String), Error>> {
    let (client, log) = scripted(true, vec![Act::Protobuf(200, body)]);
    let params = WatchParams { protobuf: true, ..WatchParams::default() };
    let events = client.watch(&PODS, &params).await.unwrap();
    assert_eq!(accepts(&log), [PROTOBUF]);
    let shown = |event: crate::WatchEvent| {
        let pod: PartialObject = event.object.decode().unwrap();
        (event.kind, format!("{} {}", pod.metadata.name, pod.metadata.resource_version))
    };
    events.map(|event| event.map(shown)).collect().await
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_cut_into_its_messages() {
    let object = |name: &str| envelope("v1", "Pod", pod(name, "7", &[]));
    let expired = envelope("v1", "Status", [field(4, "Expired"), number(6, 410)].concat());
    let body = [
        event("ADDED", object("a")),
        event("MODIFIED", object("b")),
        event("DELETED", object("c")),
        event("BOOKMARK", object("")),
        event("ERROR", expired),
        event("ADDED", object("after the end")),
    ]
    .concat();
    for size in [1, 3, 7, body.len()] {
        let mut events = watched(body.chunks(size).map(<[u8]>::to_vec).collect()).await;
        assert!(events.pop().unwrap().unwrap_err().is_expired(), "in chunks of {size}");
        let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
        let event = |kind, text: &str| (kind, text.to_owned());
        assert_eq!(
            events,
            [
                event(EventKind::Added, "a 7"),
                event(EventKind::Modified, "b 7"),
                event(EventKind::Deleted, "c 7"),
                event(EventKind::Bookmark, " 7"),
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn broken_frames_end_the_watch_with_what_is_wrong() {
    type Row = (&'static str, Vec<u8>, fn(&Error) -> bool);
    let good = event("ADDED", envelope("v1", "Pod", pod("a", "7", &[])));
    let cut_at = |at: usize| good[..at].to_vec();
    #[rustfmt::skip]
    let table: [Row; 9] = [
        ("cut in the length",      cut_at(2),                                           |e| matches!(e, Error::Unreachable { .. })),
        ("cut before the message", cut_at(4),                                           |e| matches!(e, Error::Unreachable { .. })),
        ("cut in the message",     cut_at(good.len() - 1),                              |e| matches!(e, Error::Unreachable { .. })),
        ("too long",               vec![1, 0, 0, 1],                                    |e| matches!(e, Error::TooLarge { .. })),
        ("empty",                  vec![0, 0, 0, 0],                                    |e| matches!(e, Error::Decode { .. })),
        ("not a message",          vec![0, 0, 0, 1, 0xff],                              |e| matches!(e, Error::Decode { .. })),
        ("an unknown event",       event("GREETED", envelope("v1", "Pod", [])),         |e| matches!(e, Error::Decode { .. })),
        ("no envelope",            event("ADDED", b"{}"),                               |e| matches!(e, Error::Decode { .. })),
        ("an unknown kind",        event("ADDED", envelope("v1", "News", [])),          |e| matches!(e, Error::Decode { .. })),
    ];
    for (case, frame, is_expected) in table {
        let mut events = watched(vec![good.clone(), frame]).await;
        let last = events.pop().unwrap().unwrap_err();
        assert!(is_expected(&last), "{case}: {last:?}");
        assert_eq!(last.suggests_json(), matches!(last, Error::Decode { .. }), "{case}");
        assert_eq!(events.len(), 1, "{case}");
    }
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_the_message_arrives() {
    let frames = |length: u8| {
        let mut frames = Frames::new(Encoding::Protobuf, 16);
        frames.push(&[0, 0, 0, length]);
        frames
    };
    assert_eq!(frames(17).next().map(|_| ()), Err(Oversized));
    assert!(frames(16).next().unwrap().is_none());
}

/// An API server that has no protobuf, such as the embedded one, answers JSON to the same requests.
#[tokio::test(start_paused = true)]
async fn a_server_without_protobuf_is_understood() {
    let (client, log) = scripted(
        true,
        vec![
            ok(
                r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}}]}"#,
            ),
            ok("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n"),
        ],
    );
    let list = client.list::<ConfigMap>(None, &ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].metadata.name, "a");
    let params = WatchParams { protobuf: true, ..WatchParams::default() };
    let mut events = client.watch(&PODS, &params).await.unwrap();
    let pod: Pod = events.next().await.unwrap().unwrap().object.decode().unwrap();
    assert_eq!(pod.metadata.name, "a");
    assert_eq!(accepts(&log), [PROTOBUF, PROTOBUF]);
}
