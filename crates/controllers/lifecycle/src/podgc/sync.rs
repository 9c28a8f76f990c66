//! The shell: one round every 20 seconds over all pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Key, Node, Object};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_queue::Queue;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Chain, Context, exactly};
use futures::{FutureExt, StreamExt, stream};
use smol_str::SmolStr;

use super::plan::{Reason, View, ending, missing_nodes, plan};

const PERIOD: Duration = Duration::from_secs(20);
/// How long a node must be missing before the server is asked whether it is gone.
const QUARANTINE: Duration = Duration::from_secs(40);
const AT_ONCE: usize = 20;

static DELETED: Family = Family::counter(
    "pod_gc_collector_force_delete_pods_total",
    Stability::Alpha,
    &["namespace", "reason"],
    "Pods that were deleted by force.",
);
static FAILED: Family = Family::counter(
    "pod_gc_collector_force_delete_pod_errors_total",
    Stability::Alpha,
    &["namespace", "reason"],
    "Pods that could not be deleted by force.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    /// Nodes that were found missing, until their quarantine is over.
    pub(super) missing: Queue<Key>,
}

impl Controller {
    pub(super) async fn run(&self) {
        loop {
            self.round().await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn round(&self) {
        let pods = self.pods.store().list();
        let node = |name: &str| self.nodes.store().get(&Key::cluster(name));
        for name in missing_nodes(&pods, |name| node(name).is_some()) {
            self.missing.add_after(Key::cluster(name), QUARANTINE);
        }
        let gone = self.gone_nodes().await;
        let threshold = self.cx.config.pod_gc_controller.terminated_pod_gc_threshold;
        let planned = plan(&View { pods: &pods, threshold, node: &node, gone: &gone });
        let planned: Vec<(Arc<Pod>, Reason)> =
            planned.into_iter().map(|(pod, reason)| (pod.clone(), reason)).collect();
        stream::iter(planned)
            .for_each_concurrent(AT_ONCE, |(pod, reason)| async move { self.end(&pod, reason).await })
            .await;
    }

    /// The nodes that have been missing for long enough and, says the server, do not exist.
    async fn gone_nodes(&self) -> BTreeSet<SmolStr> {
        let mut gone = BTreeSet::new();
        while let Some(Some(key)) = self.missing.next().now_or_never() {
            if self.nodes.store().get(&key).is_some() {
                continue;
            }
            match self.cx.client.get::<Node>(&key).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {
                    gone.insert(key.name.clone());
                }
                Err(error) => {
                    // Missed again in the next round, it comes back.
                    tracing::warn!(node = %*key, error = %Chain(&error), "cannot learn whether a node is gone");
                }
            }
        }
        gone
    }

    async fn end(&self, pod: &Pod, reason: Reason) {
        let labels = [pod.metadata.namespace.as_str(), reason.label()];
        self.cx.metrics.counter(&DELETED, &labels).inc();
        match self.delete(pod, reason).await {
            Err(error) if !error.is_not_found() => {
                let (pod, reason) = (pod.key(), reason.label());
                tracing::warn!(%pod, reason, error = %Chain(&error), "cannot delete a pod");
                self.cx.metrics.counter(&FAILED, &labels).inc();
            }
            _ => {}
        }
    }

    async fn delete(&self, pod: &Pod, reason: Reason) -> Result<(), Error> {
        let key = pod.key();
        let writer = self.cx.writer(&key).unawaited();
        if let Some(patch) = ending(pod, reason, self.cx.clock.now()) {
            writer.patch::<Pod>(&key, Some("status"), Patch::Strategic(patch), reason.why()).await?;
        }
        let mut options = exactly(&pod.metadata);
        options.grace_period = Some(0);
        writer.delete::<Pod>(&key, options, reason.why()).await
    }
}
