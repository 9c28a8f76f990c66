//! The requests of a source, and how it interprets responses.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use flyball_api::ResourceVersion;
use flyball_client::{Body, Chain, ClientOptions, RawObject, Transport, TransportError};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;

use super::*;

const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);

/// Answers requests with what was prepared, in order, and notes them.
#[derive(Clone, Default)]
struct Wire {
    answers: Arc<Mutex<VecDeque<(u16, &'static str)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Wire {
    fn answering(answers: &[(u16, &'static str)]) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.iter().copied().collect())), ..Self::default() }
    }

    fn source(&self, filter: Filter, form: Form) -> ClientSource {
        ClientSource::new(Client::new(Arc::new(self.clone()), ClientOptions::default()), PODS, filter, form)
    }
}

impl Transport for Wire {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let accept = request.headers()[http::header::ACCEPT].to_str().unwrap();
        let form = if accept.contains("PartialObjectMetadata") { " metadata" } else { "" };
        self.asked.lock().push(format!("{}{form}", request.uri()));
        let answer = self.answers.lock().pop_front();
        async move {
            let (code, body) = answer.ok_or_else(|| TransportError::NotSent("nothing prepared".into()))?;
            let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
            Ok(http::Response::builder().status(code).body(body).unwrap())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn lists_ask_for_one_page_after_the_other_of_the_part_that_is_wanted() {
    let wire = Wire::answering(&[
        (
            200,
            r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"t o","remainingItemCount":1},"items":[{"a":1},{"b":[2]}]}"#,
        ),
        (200, r#"{"metadata":{"resourceVersion":"7"},"items":null}"#),
    ]);
    let filter = Filter {
        namespace: Some("kube-system".into()),
        labels: Some("a=b".into()),
        fields: Some("spec.nodeName!=".into()),
    };
    let source = wire.source(filter, Form::Metadata);
    let page = source.page(500, None).await.unwrap();
    assert_eq!(page.items, [r#"{"a":1}"#, r#"{"b":[2]}"#].map(RawObject::json));
    assert_eq!((page.version, page.next.as_deref()), (ResourceVersion(7), Some("t o")));
    let page = source.page(500, page.next).await.unwrap();
    assert_eq!((page.items.len(), page.next), (0, None));
    let selectors = "labelSelector=a%3Db&fieldSelector=spec.nodeName%21%3D&limit=500";
    let path = "/api/v1/namespaces/kube-system/pods";
    assert_eq!(
        *wire.asked.lock(),
        [format!("{path}?{selectors} metadata"), format!("{path}?{selectors}&continue=t+o metadata")]
    );
}

#[tokio::test(start_paused = true)]
async fn watches_begin_with_a_streaming_list_or_after_a_version() {
    let events = concat!(
        r#"{"type":"ADDED","object":{"x":1}}"#,
        "\n",
        r#"{"type":"MODIFIED","object":{"x":2}}"#,
        "\n",
        r#"{"type":"DELETED","object":{"x":3}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"x":4}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#,
        "\n",
    );
    let wire = Wire::answering(&[(200, events), (200, "")]);
    let source = wire.source(Filter::default(), Form::Whole);
    let events: Vec<_> =
        source.watch(WatchFrom::Scratch, Duration::from_secs(300)).await.unwrap().collect().await;
    let kinds: Vec<_> = events.iter().flatten().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Applied, EventKind::Applied, EventKind::Deleted, EventKind::Bookmark]);
    assert_eq!(events[1].as_ref().unwrap().object, RawObject::json(r#"{"x":2}"#));
    let expired = events[4].as_ref().unwrap_err();
    assert_eq!(
        (expired.class, Chain(&expired).to_string().as_str()),
        (Class::VersionUnusable, "watching: too old")
    );
    drop(source.watch(WatchFrom::Version(ResourceVersion(9)), Duration::from_secs(599)).await.unwrap());
    let asked = wire.asked.lock();
    let from_scratch = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    assert_eq!(asked[0], format!("/api/v1/pods?watch=true&{from_scratch}&timeoutSeconds=300"));
    assert_eq!(
        asked[1],
        "/api/v1/pods?watch=true&resourceVersion=9&allowWatchBookmarks=true&timeoutSeconds=599"
    );
}

#[tokio::test(start_paused = true)]
async fn answers_decide_what_is_done_next() {
    let too_large = r#"{"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
    let said_only = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 5"}"#;
    #[rustfmt::skip]
    let table = [
        ("compacted",                 410, r#"{"kind":"Status","code":410,"reason":"Expired"}"#,   Class::VersionUnusable),
        ("gone, as old servers say",  410, r#"{"kind":"Status","code":410,"reason":"Gone"}"#,      Class::VersionUnusable),
        ("from the future",           504, too_large,                                              Class::VersionUnusable),
        ("from the future, old form", 504, said_only,                                              Class::VersionUnusable),
        ("no streaming lists",        422, r#"{"kind":"Status","code":422,"reason":"Invalid"}"#,   Class::Refused),
        ("unknown parameters",        400, "",                                                     Class::Refused),
        ("no watching",               405, "",                                                     Class::Refused),
        ("not allowed yet",           403, "",                                                     Class::Passing),
        ("not served yet",            404, "",                                                     Class::NotServed),
        ("too busy",                  429, "",                                                     Class::Passing),
        ("broken",                    500, "",                                                     Class::Passing),
        ("slow",                      504, "",                                                     Class::Passing),
    ];
    for (case, code, body, want) in table {
        let source = Wire::answering(&[(code, body)]).source(Filter::default(), Form::Whole);
        let failure = source.watch(WatchFrom::Scratch, Duration::from_secs(300)).await.err().unwrap();
        assert_eq!(failure.class, want, "{case}");
    }
    let unreachable = Wire::default().source(Filter::default(), Form::Whole).page(1, None).await.unwrap_err();
    assert_eq!(unreachable.class, Class::Unreachable);
    let nonsense =
        Wire::answering(&[(200, "<html>")]).source(Filter::default(), Form::Whole).page(1, None).await;
    assert!(Chain(&nonsense.unwrap_err()).to_string().contains("the response cannot be read"));
}
