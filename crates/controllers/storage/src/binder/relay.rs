//! Copies the events about a recycler pod to its volume. This is a watch of its own: an informer for all events of the
//! cluster would be large, and recycler pods are rare.

use flyball_api::{Event, Key, Resource};
use flyball_client::{Client, EventKind, WatchParams};
use flyball_runtime::events::{EventType, ObjectRef, Recorder};
use futures::StreamExt;
use smol_str::format_smolstr;
use tokio::task::AbortHandle;

/// A relay that ends when this is dropped.
pub(super) struct Relay(AbortHandle);

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Copies all events about `pod`, also earlier ones, to `volume`.
pub(super) fn start(client: Client, events: Recorder, volume: ObjectRef, pod: Key) -> Relay {
    Relay(tokio::spawn(run(client, events, volume, pod)).abort_handle())
}

/// Ends with the watch: nothing depends on these events, and a recycler pod seldom lives longer than one watch.
async fn run(client: Client, events: Recorder, volume: ObjectRef, pod: Key) {
    let params = WatchParams {
        namespace: Some(pod.namespace.clone()),
        field_selector: Some(format_smolstr!("involvedObject.name={}", pod.name)),
        ..WatchParams::default()
    };
    let mut changes = match client.watch(&Event::TYPE, &params).await {
        Ok(changes) => changes,
        Err(error) => {
            tracing::warn!(%pod, %error, "cannot watch the events about a recycler pod");
            return;
        }
    };
    while let Some(Ok(change)) = changes.next().await {
        let event = change.object.decode::<Event>();
        if let (EventKind::Added, Ok(event)) = (change.kind, event) {
            let kind = if event.type_ == "Warning" { EventType::Warning } else { EventType::Normal };
            let message = format!("Recycler pod: {}", event.message);
            events.record(&volume, kind, "RecyclerPod", message, vec![]);
        }
    }
}
