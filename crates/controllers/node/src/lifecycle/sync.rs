//! The shell of what concerns one object: taints and labels of a node that has changed, readiness of a pod that has
//! come to a node that is not ready.

use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::Informer;
use flyball_client::Patch;
use flyball_runtime::{Next, Reconcile, SyncError};

use super::status::{Ready, readiness};
use super::writes::{Hands, claims_ready};
use super::{labels, taints};

/// Keeps `NoSchedule` taints and twin labels in line with what nodes report.
pub(super) struct Nodes {
    pub(super) hands: Arc<Hands>,
    pub(super) nodes: Arc<Informer<Node>>,
}

impl Reconcile for Nodes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else { return Ok(Next::Settled) };
        let tainted = self.taint(key, &node).await;
        let labelled = self.label(key, &node).await;
        tainted.and(labelled).map(|()| Next::Settled)
    }
}

impl Nodes {
    async fn taint(&self, key: &Key, node: &Node) -> Result<(), SyncError> {
        let (writer, why) = (self.hands.cx.writer(key), "its conditions say what it can be used for");
        let patched = self.hands.swap_taints(writer, node, taints::no_schedule, why).await;
        settled(patched, || format!("setting the NoSchedule taints of node {key}"))
    }

    async fn label(&self, key: &Key, node: &Node) -> Result<(), SyncError> {
        let Some(patch) = labels::patch(&node.metadata.labels) else { return Ok(()) };
        let why = "labels that have an older twin say the same";
        let writer = self.hands.cx.writer(key);
        let patched = writer.patch::<Node>(key, None, Patch::Strategic(patch), why).await;
        settled(patched, || format!("setting the labels of node {key}"))
    }
}

fn settled<T>(
    patched: Result<T, flyball_client::Error>,
    doing: impl Fn() -> String,
) -> Result<(), SyncError> {
    match patched {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(SyncError::api(doing())(error)),
    }
}

/// Marks pods that come to a node that is not ready; the others are marked when their node falls.
pub(super) struct Pods {
    pub(super) hands: Arc<Hands>,
    pub(super) nodes: Arc<Informer<Node>>,
}

impl Reconcile for Pods {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.hands.pods.store().get(key) else { return Ok(Next::Settled) };
        let Some(node) = self.nodes.store().get(&Key::cluster(pod.spec.node_name.clone())) else {
            return Ok(Next::Settled);
        };
        let falls = readiness(&node).is_some_and(|ready| ready != Ready::True);
        if falls && claims_ready(&pod) {
            let marked = self.hands.mark_pod(&pod).await;
            marked.map_err(SyncError::api(format!("marking pod {key} as not ready")))?;
        }
        Ok(Next::Settled)
    }
}
