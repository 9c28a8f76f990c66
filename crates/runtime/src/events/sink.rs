//! Writes events to the API server, one after another, for one controller.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flyball_api::{Key, ResourceType, hash};
use flyball_client::{Accept, Chain, Client, Error, Patch, Request, Verb};
use futures::FutureExt;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::mpsc;

use super::correlator::{Correlator, Post};
use super::{EventType, ObjectRef, Report};

const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
const EVENTS: ResourceType = ResourceType::new("", "v1", "events", "Event", true);

/// A panic costs the event that causes it.
pub(super) async fn write_all(mut arrivals: mpsc::Receiver<Report>, client: Client, dropped: Arc<AtomicU64>) {
    // Allocated with the first event: most controllers record none for a long time.
    let mut correlator = None::<Correlator>;
    while let Some(report) = arrivals.recv().await {
        let written = async {
            if let Some(post) = correlator.get_or_insert_default().correlate(&report) {
                write(&client, &report, &post).await;
            }
        };
        if AssertUnwindSafe(written).catch_unwind().await.is_err() {
            tracing::error!(source = %report.source, reason = %report.reason, "an event was dropped because of a panic, logged where it happened");
            dropped.fetch_add(1, Ordering::Relaxed);
            // It may be inconsistent.
            correlator = None;
        }
    }
}

/// Writes one event. Retries only if the server could not be reached, not if it refused the event.
async fn write(client: &Client, report: &Report, post: &Post) {
    let namespace =
        if report.about.namespace.is_empty() { "default" } else { report.about.namespace.as_str() };
    for attempt in 1..=TRIES {
        let error = match write_once(client, namespace, report, post).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if error.status().is_some() {
            let everyday = error.is_already_exists() || error.has_cause("NamespaceTerminating");
            if !everyday {
                tracing::warn!(event = %post.name, namespace, error = %Chain(&error), "the API server refused an event");
            }
            return;
        }
        if attempt == TRIES {
            tracing::warn!(event = %post.name, namespace, error = %Chain(&error), "gave up writing an event");
            return;
        }
        let share = if attempt == 1 { first_share(&post.name) } else { 1.0 };
        tokio::time::sleep(PAUSE.mul_f64(share)).await;
    }
}

/// The jitter of the first pause, so that not all clients return to a recovering server at once. The names of events contain
/// the time, so their hashes are evenly spread.
fn first_share(name: &str) -> f64 {
    f64::from(hash::fnv32a(name.as_bytes())) / f64::from(u32::MAX)
}

async fn write_once(client: &Client, namespace: &str, report: &Report, post: &Post) -> Result<(), Error> {
    if post.count > 1 {
        let key = Key::new(namespace, post.name.as_str());
        let patch = Patch::Strategic(
            json!({"count": post.count, "lastTimestamp": seconds(post.last), "message": post.message}),
        );
        match send(client, Request::patch(&EVENTS, &key, None, &patch), patch.document()).await {
            // It may have expired on the server; then it is created again.
            Err(error) if error.is_not_found() => {}
            other => return other,
        }
    }
    let request = Request::collection(Verb::Create, &EVENTS, Some(namespace));
    send(client, request, &Body::new(namespace, report, post)).await
}

/// Requests only metadata as response, since it is not read.
async fn send(client: &Client, request: Request, body: &impl Serialize) -> Result<(), Error> {
    client.send_body::<IgnoredAny>(request.accept(Accept::Metadata), body).await.map(drop)
}

/// A v1 Event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    involved_object: &'a ObjectRef,
    reason: &'a str,
    message: &'a str,
    source: Source<'a>,
    first_timestamp: String,
    last_timestamp: String,
    count: u32,
    r#type: EventType,
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
}

impl<'a> Body<'a> {
    fn new(namespace: &'a str, report: &'a Report, post: &'a Post) -> Self {
        let annotations =
            report.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        Self {
            api_version: "v1",
            kind: "Event",
            metadata: Metadata { name: &post.name, namespace, annotations },
            involved_object: &report.about,
            reason: &report.reason,
            message: &post.message,
            source: Source { component: &report.source },
            first_timestamp: seconds(post.first),
            last_timestamp: seconds(post.last),
            count: post.count,
            r#type: report.kind,
            // Upstream: client-go tools/record, EventAggregate: combined events carry no reporting component.
            reporting_component: if post.combined { "" } else { &report.source },
            reporting_instance: "",
        }
    }
}

fn seconds(time: flyball_api::Timestamp) -> String {
    flyball_api::time::format_seconds(time)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use flyball_client::{Body as Response, ClientOptions, Transport, TransportError};
    use futures::future::BoxFuture;
    use http_body_util::{BodyExt, Full};

    use super::*;
    use crate::clock::Clock;
    use crate::events::Recorder;

    /// Panics at the first request, and counts them.
    struct PanicsOnce(Arc<AtomicU64>);

    impl Transport for PanicsOnce {
        fn send(
            &self,
            _: http::Request<Bytes>,
        ) -> BoxFuture<'static, Result<http::Response<Response>, TransportError>> {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "a bug");
            let body = Full::from("{}").map_err(|never| match never {}).boxed_unsync();
            Box::pin(async { Ok(http::Response::builder().status(201).body(body).unwrap()) })
        }
    }

    #[tokio::test]
    async fn a_panic_costs_one_event() {
        let requests = Arc::<AtomicU64>::default();
        let client = Client::new(Arc::new(PanicsOnce(requests.clone())), ClientOptions::default());
        let (recorder, write) = Recorder::new("test", Clock::system(), client);
        let dropped = recorder.dropped.clone();
        let meta = serde_json::from_value(json!({"name": "a", "namespace": "ns"})).unwrap();
        let about = ObjectRef::from_meta("v1", "Thing", &meta);
        recorder.normal(&about, "First", "it is lost");
        recorder.normal(&about, "Second", "it is written");
        drop(recorder);
        write.await;
        assert_eq!((requests.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)), (2, 1));
    }
}
