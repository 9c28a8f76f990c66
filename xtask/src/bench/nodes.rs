//! The load of many nodes: leases are renewed all the time, then those of some nodes are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::load::{self, Request};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::measure::Bench;
use super::scenarios::all_are;

const NODES: usize = 1000;
const LOST: usize = 100;
const PODS_EACH: usize = 5;
/// Every node renews its lease this often, as kubelets do.
const RENEWAL: Duration = Duration::from_secs(10);
const BEATING: Duration = Duration::from_secs(60);
const ALL: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

pub(super) async fn play(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let api = Arc::clone(&bench.api);
    load::send_all(&api, (0..NODES).map(|n| Request::create(ALL, node(n)))).await?;
    load::send_all(&api, (0..NODES).map(|n| Request::merge(format!("{ALL}/{}/status", name(n)), ready())))
        .await?;
    load::send_all(&api, (0..NODES).map(|n| Request::create(LEASES, lease(n)))).await?;
    let pods = load::path("v1", "pods");
    // Only the nodes that will be lost have pods: others would cost both contenders memory, and no work.
    let members = || (0..LOST).flat_map(|n| (0..PODS_EACH).map(move |p| (n, p)));
    load::send_all(&api, members().map(|(n, p)| Request::create(&pods, pod(n, p)))).await?;
    let status = |(n, p)| Request::merge(format!("{pods}/{}/status", pod_name(n, p)), running());
    load::send_all(&api, members().map(status)).await?;
    let hearts = Hearts::start(Arc::clone(&api));
    bench.start_manager().await?;
    // The server taints new nodes; the node lifecycle controller removes the taint when they are ready.
    all_are(&api, ALL, |node| node["spec"]["taints"].is_null()).await?;

    bench
        .measure("beating", async {
            tokio::time::sleep(BEATING).await;
            Ok(())
        })
        .await?;
    let untouched = load::count_if(&api, ALL, |node| node["spec"]["taints"].is_null()).await?;
    ensure!(
        untouched == NODES,
        "{} nodes became NotReady although they renew their leases",
        NODES - untouched
    );
    bench
        .measure("loss", async {
            hearts.stop(LOST);
            all_are(&api, ALL, |node| !is_lost(node) || is_given_up(node)).await?;
            all_are(&api, &pods, |pod| !pod["metadata"]["deletionTimestamp"].is_null()).await
        })
        .await
}

/// Whether a node is one of those whose heartbeats stop.
fn is_lost(node: &Value) -> bool {
    let number = node["metadata"]["name"].as_str().and_then(|name| name.rsplit('-').next());
    number.and_then(|number| number.parse::<usize>().ok()).is_some_and(|number| number < LOST)
}

fn is_given_up(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|taints| taints.len() == 2)
}

fn name(n: usize) -> String {
    format!("node-{n}")
}

fn pod_name(n: usize, p: usize) -> String {
    format!("p-{n}-{p}")
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

/// A pod that is evicted soon after its node is unreachable.
fn pod(n: usize, p: usize) -> Value {
    let mut pod = load::template("app", "main");
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = pod_name(n, p).into();
    pod["spec"]["nodeName"] = name(n).into();
    pod["spec"]["tolerations"] = json!([
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1},
    ]);
    pod
}

fn running() -> Value {
    json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Renews the leases of all nodes but the first few, evenly spread over time, until dropped.
struct Hearts {
    stopped: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Hearts {
    fn start(api: Arc<Api>) -> Self {
        const TURNS: usize = 100;
        let stopped = Arc::new(AtomicUsize::new(0));
        let first = Arc::clone(&stopped);
        let task = tokio::spawn(async move {
            let mut turns = tokio::time::interval(RENEWAL / TURNS as u32);
            for turn in (0..TURNS).cycle() {
                turns.tick().await;
                let renewed = (turn..NODES).step_by(TURNS).filter(|n| *n >= first.load(Ordering::Relaxed));
                let body = || json!({"spec": {"renewTime": renewal()}});
                let renewals = renewed.map(|n| Request::merge(format!("{LEASES}/{}", name(n)), body()));
                // A missed renewal is repeated ten seconds later, long before the grace period ends.
                let _ = load::send_all(&api, renewals).await;
            }
        });
        Self { stopped, task }
    }

    /// The first `count` nodes stop renewing.
    fn stop(&self, count: usize) {
        self.stopped.store(count, Ordering::Relaxed);
    }
}

impl Drop for Hearts {
    fn drop(&mut self) {
        self.task.abort();
    }
}
