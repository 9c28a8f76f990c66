//! The writes of the controller, each with the reading and the retries that it needs. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::condition::Condition;
use flyball_api::pod::{ConditionStatus, Pod, PodConditionType};
use flyball_api::{Key, Node, Object, Resource, ResourceVersion, Timestamp, Uid, WithRaw};
use flyball_cache::Informer;
use flyball_client::{Error, ListParams, Patch};
use flyball_common::index::by_node;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Chain, Context, Writer};
use serde_json::{Value, json};
use smol_str::format_smolstr;

use super::status::{unready, with_conditions};
use super::taints::Swap;

/// How often a patch of taints is tried against others who write the node.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
const NODE_LOST: &str = "its node is not ready, so it cannot be relied upon";

/// What all parts of the controller share.
pub(super) struct Hands {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<Pod>>,
}

impl Hands {
    /// Changes the taints of a node as `swap` says; from the cache at first, and with a look at the server if that
    /// was too old: a node whose kubelet reports often is always a little newer than the cache. Gives the version that was written, if anything had to be.
    pub(super) async fn swap_taints(
        &self,
        writer: Writer<'_>,
        node: &Node,
        swap: impl Fn(&Node) -> Swap,
        why: &'static str,
    ) -> Result<Option<ResourceVersion>, Error> {
        let key = node.key();
        let mut fresh: Option<Node> = None;
        for attempt in 1.. {
            let seen = fresh.as_ref().unwrap_or(node);
            let Some(patch) = swap(seen).patch(seen, self.cx.clock.now()) else { return Ok(None) };
            match writer.patch::<Node>(&key, None, Patch::Strategic(patch), why).await {
                Err(error) if error.is_conflict() && attempt < TRIES => {}
                other => return other.map(|node| Some(node.metadata.resource_version)),
            }
            if fresh.is_some() {
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
            fresh = Some(self.cx.client.get::<Node>(&key).await?);
        }
        Ok(None)
    }

    /// The same for those who do not wait for the cache.
    pub(super) async fn swap_taints_now(
        &self,
        node: &Node,
        swap: impl Fn(&Node) -> Swap,
        why: &'static str,
    ) -> Result<Option<ResourceVersion>, Error> {
        let key = node.key();
        self.swap_taints(self.cx.writer(&key).unawaited(), node, swap, why).await
    }

    /// Reads a node from the server, with all that we do not know.
    pub(super) async fn live_node(&self, key: &Key) -> Result<WithRaw<Node>, Error> {
        self.cx.client.get_as::<WithRaw<Node>>(&Node::TYPE, key, None).await
    }

    /// Writes other conditions into a node that was just read.
    pub(super) async fn put_conditions(
        &self,
        live: &WithRaw<Node>,
        conditions: &[Condition],
        why: String,
    ) -> Result<ResourceVersion, Error> {
        let key = live.key();
        let body = with_conditions(live.raw().to_value(), conditions);
        let writer = self.cx.writer(&key).unawaited();
        let written = writer.update::<Node>(&key, Some("status"), &body, why).await?;
        Ok(written.metadata.resource_version)
    }

    /// Marks the pods of a node as not ready; says whether that is done for all of them.
    pub(super) async fn mark_pods(&self, node: &str) -> bool {
        let cached = self.pods.store().by(&by_node(), node);
        if !cached.iter().any(|pod| claims_ready(pod)) {
            return true;
        }
        // Pods are cached without much of what their status says, and the whole of it must be sent back.
        let on_node = ListParams {
            field_selector: Some(format_smolstr!("spec.nodeName={node}")),
            ..ListParams::default()
        };
        let pods = match self.cx.client.list_dynamic(&Pod::TYPE, None, &on_node).await {
            Ok(list) => list.items,
            Err(error) => {
                tracing::warn!(node, error = %Chain(&error), "cannot list the pods of a lost node; trying again");
                return false;
            }
        };
        let mut all = true;
        for pod in pods {
            if let Err(error) = self.mark_unready(pod).await {
                tracing::warn!(node, error = %Chain(&error), "cannot mark a pod of a lost node; trying again");
                all = false;
            }
        }
        all
    }

    /// Reads one pod from the server and marks it as not ready, unless it is another one or was moved.
    pub(super) async fn mark_pod(&self, pod: &Pod) -> Result<(), Error> {
        let live = match self.cx.client.get_dynamic(&Pod::TYPE, &pod.key()).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if live["metadata"]["uid"] != json!(pod.metadata.uid) {
            return Ok(());
        }
        self.mark_unready(live).await
    }

    async fn mark_unready(&self, live: Value) -> Result<(), Error> {
        let Some(mut body) = unready(live, self.cx.clock.now()) else { return Ok(()) };
        // Items of a list come without their kind.
        body["apiVersion"] = json!(Pod::TYPE.api_version());
        body["kind"] = json!(Pod::TYPE.kind);
        let text = |field: &str| body["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = Key::new(text("namespace"), text("name"));
        let writer = self.cx.writer(&key).unawaited();
        match writer.update::<Pod>(&key, Some("status"), &body, NODE_LOST).await {
            Ok(pod) => {
                self.events.warning(&ObjectRef::of(&pod), "NodeNotReady", "Node is not ready");
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Tells something about a node.
    pub(super) fn tell(&self, node: &str, uid: &Uid, reason: &'static str, message: String) {
        self.events.normal(&ObjectRef::named::<Node>("", node, uid), reason, message);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.cx.clock.now()
    }
}

/// Whether a pod is not known to be unready.
pub(super) fn claims_ready(pod: &Pod) -> bool {
    let ready = pod.status.condition(&PodConditionType::Ready);
    ready.is_some_and(|ready| ready.status != ConditionStatus::False)
}
