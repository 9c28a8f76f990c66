//! The shell that copies the events about a recycler pod to its volume. This is a watch of its own: an informer for all events
//! of the cluster would be large, and recycler pods are rare.

use std::sync::Arc;

use flyball_api::{Event, Key, Resource};
use flyball_client::{EventKind, WatchParams};
use flyball_runtime::Context;
use flyball_runtime::events::{ObjectRef, Recorder};
use futures::StreamExt;
use smol_str::format_smolstr;
use tokio::task::AbortHandle;

use super::recycler::copied;

/// A relay that ends when this is dropped.
pub(super) struct Relay(AbortHandle);

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Copies all events about `pod`, also earlier ones, to `volume`.
pub(super) fn start(cx: Arc<Context>, events: Recorder, volume: ObjectRef, pod: Key) -> Relay {
    Relay(cx.run_aside("relay of recycler events", run(cx.clone(), events, volume, pod)))
}

/// Ends with the watch: nothing depends on these events, and a recycler pod seldom lives longer than one watch.
async fn run(cx: Arc<Context>, events: Recorder, volume: ObjectRef, pod: Key) {
    let params = WatchParams {
        namespace: Some(pod.namespace.clone()),
        field_selector: Some(format_smolstr!("involvedObject.name={}", pod.name)),
        ..WatchParams::default()
    };
    let mut changes = match cx.client.watch(&Event::TYPE, &params).await {
        Ok(changes) => changes,
        Err(error) => {
            tracing::warn!(%pod, %error, "cannot watch the events about a recycler pod");
            return;
        }
    };
    let executor = cx.executor(&pod).about(volume).events(&events);
    while let Some(Ok(change)) = changes.next().await {
        let event = change.object.decode::<Event>();
        if let (EventKind::Added, Ok(event)) = (change.kind, event) {
            executor.emit([copied(&event)]);
        }
    }
}
