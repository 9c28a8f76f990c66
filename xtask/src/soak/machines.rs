//! The simulated machines: nodes that renew their leases, and a storage driver that attaches disks.

use std::sync::Arc;
use std::time::Duration;

use flyball_sim::nodes::Nodes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::shared::Shared;

pub(super) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
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

/// Registers the nodes, then renews their leases forever.
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
    let mut interval = tokio::time::interval(RENEWAL);
    loop {
        interval.tick().await;
        for name in NODES {
            shared.merge(&format!("{LEASES}/{name}"), &json!({"spec": {"renewTime": now()}})).await;
        }
    }
}

/// Simulates the external-attacher of a CSI driver: sets its finalizer and `attached`, and removes the finalizer at deletion.
pub(super) async fn attacher(shared: Shared) {
    let (send, mut work) = tokio::sync::mpsc::channel::<Value>(1024);
    let sync_all = async {
        while let Some(attachment) = work.recv().await {
            sync(&shared, &attachment).await;
        }
    };
    let watch = shared.follow(ATTACHMENTS, |attachment, exists| {
        if exists && !attachment.is_null() {
            // If the channel is full, the object is sent again at its next change or with the next list.
            let _ = send.try_send(attachment.clone());
        }
    });
    tokio::join!(sync_all, watch);
}

async fn sync(shared: &Shared, attachment: &Value) {
    let path = format!("{ATTACHMENTS}/{}", attachment["metadata"]["name"].as_str().unwrap_or_default());
    let has_finalizer = attachment["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
    let is_attached = attachment["status"]["attached"] == true;
    if attachment["metadata"]["deletionTimestamp"].is_string() {
        if has_finalizer {
            shared.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
        }
    } else if !has_finalizer {
        shared.merge(&path, &json!({"metadata": {"finalizers": [ATTACHER]}})).await;
    } else if !is_attached {
        shared.merge(&format!("{path}/status"), &json!({"status": {"attached": true}})).await;
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
