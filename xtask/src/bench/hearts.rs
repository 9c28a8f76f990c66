//! Nodes whose kubelets do nothing but renew their leases. Without them, the node lifecycle controller would taint every node
//! of a benchmark after a minute, and pod garbage collection would delete the pods of nodes that do not exist.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flyball_sim::api::Api;
use flyball_sim::load::{self, Request};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(super) const ALL: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// Every node renews its lease this often, as kubelets do.
const RENEWAL: Duration = Duration::from_secs(10);
/// How many times in that period some of them do.
const TURNS: usize = 100;

pub(super) fn name(n: usize) -> String {
    format!("node-{n}")
}

/// Adds ready nodes with these numbers to the cluster, and renews their leases from then on.
pub(super) async fn join(api: &Arc<Api>, nodes: Range<usize>) -> anyhow::Result<Hearts> {
    load::send_all(api, nodes.clone().map(|n| Request::create(ALL, node(n)))).await?;
    let status = |n| Request::merge(format!("{ALL}/{}/status", name(n)), ready());
    load::send_all(api, nodes.clone().map(status)).await?;
    load::send_all(api, nodes.clone().map(|n| Request::create(LEASES, lease(n)))).await?;
    Ok(Hearts::start(Arc::clone(api), nodes))
}

fn node(n: usize) -> Value {
    let zone = format!("zone-{}", n % 3);
    let labels = json!({"topology.kubernetes.io/zone": zone});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(n), "labels": labels}})
}

fn ready() -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "reason": "Kubelet", "message": "all is well",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!({"status": {"conditions": [
        condition("MemoryPressure", "False"), condition("DiskPressure", "False"), condition("PIDPressure", "False"),
        condition("Ready", "True"),
    ]}})
}

fn lease(n: usize) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name(n), "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name(n), "leaseDurationSeconds": 40, "renewTime": renewal()},
    })
}

fn renewal() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// The nodes that renew their leases in one of the turns.
fn in_turn(nodes: &Range<usize>, turn: usize) -> impl Iterator<Item = usize> + use<> {
    nodes.clone().filter(move |n| n % TURNS == turn)
}

/// Renews the leases of nodes, evenly spread over time, until dropped.
pub(super) struct Hearts {
    stopped: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Hearts {
    fn start(api: Arc<Api>, nodes: Range<usize>) -> Self {
        let stopped = Arc::new(AtomicUsize::new(0));
        let first = Arc::clone(&stopped);
        let task = tokio::spawn(async move {
            let mut turns = tokio::time::interval(RENEWAL / TURNS as u32);
            for turn in (0..TURNS).cycle() {
                turns.tick().await;
                let renewed = in_turn(&nodes, turn).filter(|n| *n >= first.load(Ordering::Relaxed));
                let body = || json!({"spec": {"renewTime": renewal()}});
                let renewals = renewed.map(|n| Request::merge(format!("{LEASES}/{}", name(n)), body()));
                // A missed renewal is repeated ten seconds later, long before the grace period ends.
                let _ = load::send_all(&api, renewals).await;
            }
        });
        Self { stopped, task }
    }

    /// The nodes with lower numbers stop renewing.
    pub(super) fn stop_below(&self, number: usize) {
        self.stopped.store(number, Ordering::Relaxed);
    }
}

impl Drop for Hearts {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_renews_its_lease_once_in_a_period() {
        for nodes in [1..2, 0..1000, 150..260] {
            let mut renewed: Vec<usize> = (0..TURNS).flat_map(|turn| in_turn(&nodes, turn)).collect();
            renewed.sort_unstable();
            assert_eq!(renewed, nodes.collect::<Vec<_>>());
        }
    }
}
