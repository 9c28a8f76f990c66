//! Writes events to the API server, one after another, for one controller.

use std::time::Duration;

use flyball_api::{Key, ResourceType};
use flyball_client::{Client, Error, Patch};
use rand::Rng;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Report;
use super::correlator::{Correlator, Post};
use crate::error::Chain;

const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
const EVENTS: ResourceType = ResourceType::new("", "v1", "events", "Event", true);

pub(super) async fn write_all(mut arrivals: mpsc::Receiver<Report>, client: Client) {
    let mut correlator = Correlator::default();
    while let Some(report) = arrivals.recv().await {
        if let Some(post) = correlator.correlate(&report) {
            write(&client, &report, &post).await;
        }
    }
}

/// Writes one event. Tries again only when the server could not be reached: an event that it refuses would
/// be refused again.
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
        // The first pause is random, so that not all clients come back to a recovering server at once.
        let share = if attempt == 1 { rand::rng().random_range(0.0..1.0) } else { 1.0 };
        tokio::time::sleep(PAUSE.mul_f64(share)).await;
    }
}

async fn write_once(client: &Client, namespace: &str, report: &Report, post: &Post) -> Result<(), Error> {
    if post.count > 1 {
        let key = Key::new(namespace, post.name.as_str());
        let body = json!({"count": post.count, "lastTimestamp": seconds(post.last), "message": post.message});
        match client.patch_dynamic(&EVENTS, &key, None, &Patch::Strategic(body)).await {
            // It may have expired on the server meanwhile; then it is told anew.
            Err(error) if error.is_not_found() => {}
            other => return other.map(drop),
        }
    }
    client.create_dynamic(&EVENTS, namespace, &body(namespace, report, post)).await.map(drop)
}

fn body(namespace: &str, report: &Report, post: &Post) -> Value {
    let mut metadata = json!({"name": post.name, "namespace": namespace});
    if !report.annotations.is_empty() {
        metadata["annotations"] = report.annotations.iter().map(|(k, v)| (k.to_string(), json!(v))).collect();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": report.about,
        "reason": report.reason,
        "message": post.message,
        "source": {"component": report.source},
        "firstTimestamp": seconds(post.first),
        "lastTimestamp": seconds(post.last),
        "count": post.count,
        "type": report.kind,
        // Upstream: client-go tools/record, EventAggregate: combined events carry no reporting component.
        "reportingComponent": if post.combined { "" } else { report.source.as_str() },
        "reportingInstance": "",
    })
}

fn seconds(time: flyball_api::Timestamp) -> String {
    flyball_api::time::format_seconds(time)
}
