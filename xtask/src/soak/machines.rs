//! The simulated machines: nodes that renew their leases, and a storage driver that attaches disks.

use std::sync::Arc;
use std::time::Duration;

use flyball_sim::nodes::Nodes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::shared::Shared;

pub(super) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// The driver of all disks.
pub(super) const DRIVER: &str = "disks.soak.example";

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const ATTACHER: &str = "external-attacher/disks-soak-example";
const RENEWAL: Duration = Duration::from_secs(5);

/// Schedules and runs the pods of a namespace on all nodes, until dropped.
pub(super) fn run_pods(shared: &Shared, namespace: &str) -> Nodes {
    let nodes = NODES.map(str::to_owned).to_vec();
    Nodes::start_on(nodes, Arc::clone(&shared.client), Arc::clone(&shared.api), namespace)
}

/// Registers the nodes and renews their leases for ever.
pub(super) async fn nodes(shared: Shared) {
    for name in NODES {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "labels": {"kubernetes.io/hostname": name},
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            },
        });
        shared.create("/api/v1/nodes", &node).await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()},
        });
        shared.create(LEASES, &lease).await;
        let ready = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()},
        ]}});
        shared.merge(&format!("/api/v1/nodes/{name}/status"), &ready).await;
    }
    let mut turns = tokio::time::interval(RENEWAL);
    loop {
        turns.tick().await;
        for name in NODES {
            shared.merge(&format!("{LEASES}/{name}"), &json!({"spec": {"renewTime": now()}})).await;
        }
    }
}

/// Attaches and detaches disks as a storage driver's attacher would, finalizer included.
pub(super) async fn attacher(shared: Shared) {
    let (send, mut work) = tokio::sync::mpsc::channel::<Value>(1024);
    let acts = async {
        while let Some(attachment) = work.recv().await {
            act(&shared, &attachment).await;
        }
    };
    let sees = shared.follow(ATTACHMENTS, |attachment, is_there| {
        if is_there && !attachment.is_null() {
            // If the channel is full, the object's next change or the next list brings it back.
            let _ = send.try_send(attachment.clone());
        }
    });
    tokio::join!(acts, sees);
}

async fn act(shared: &Shared, attachment: &Value) {
    let path = format!("{ATTACHMENTS}/{}", attachment["metadata"]["name"].as_str().unwrap_or_default());
    let has_finalizer = attachment["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
    let attached = attachment["status"]["attached"] == true;
    if attachment["metadata"]["deletionTimestamp"].is_string() {
        if has_finalizer {
            shared.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
        }
    } else if !has_finalizer {
        shared.merge(&path, &json!({"metadata": {"finalizers": [ATTACHER]}})).await;
    } else if !attached {
        shared.merge(&format!("{path}/status"), &json!({"status": {"attached": true}})).await;
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
