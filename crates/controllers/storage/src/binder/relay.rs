//! Passes on to a volume what is told about the pod that empties it.

use flyball_api::{Event, Key, Resource};
use flyball_client::{Client, EventKind, WatchParams};
use flyball_runtime::events::{EventType, ObjectRef, Recorder};
use futures::StreamExt;
use smol_str::format_smolstr;
use tokio::task::AbortHandle;

/// Somebody who listens; nobody does any more once this is gone.
pub(super) struct Listening(AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells `volume` everything that is told about `pod`, those who told it before included.
pub(super) fn listen(client: Client, events: Recorder, volume: ObjectRef, pod: Key) -> Listening {
    Listening(tokio::spawn(relay(client, events, volume, pod)).abort_handle())
}

/// Ends with the watch: nothing hangs on what is told, and a recycler pod seldom lives longer than one.
async fn relay(client: Client, events: Recorder, volume: ObjectRef, pod: Key) {
    let params = WatchParams {
        namespace: Some(pod.namespace.clone()),
        field_selector: Some(format_smolstr!("involvedObject.name={}", pod.name)),
        ..WatchParams::default()
    };
    let mut told = match client.watch(&Event::TYPE, &params).await {
        Ok(told) => told,
        Err(error) => {
            tracing::warn!(%pod, %error, "cannot follow what is told about a recycler pod");
            return;
        }
    };
    while let Some(Ok(change)) = told.next().await {
        let event = serde_json::from_slice::<Event>(&change.object);
        if let (EventKind::Added, Ok(event)) = (change.kind, event) {
            let kind = if event.type_ == "Warning" { EventType::Warning } else { EventType::Normal };
            let message = format!("Recycler pod: {}", event.message);
            events.record(&volume, kind, "RecyclerPod", message, vec![]);
        }
    }
}
