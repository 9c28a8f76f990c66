//! The API server is away for longer than the node monitor's grace period. No node becomes NotReady because of that; one that
//! stays silent afterwards does. Skipped without assets.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::load::{self, Request, until};
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const CONTROLLER: &str = "node-lifecycle-controller";
const GRACE: Duration = Duration::from_secs(6);
const AWAY: Duration = Duration::from_secs(12);
const BEAT: Duration = Duration::from_millis(300);
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

#[tokio::test]
async fn an_outage_of_the_server_makes_no_node_lost() -> anyhow::Result<()> {
    Cluster::play("an_outage_of_the_server_makes_no_node_lost", play).await
}

async fn play(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let names = ["node-1", "node-2", "node-3"];
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    load::send_all(&api, names.map(|name| Request::create(NODES, node(name)))).await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    load::send_all(&api, names.map(|name| Request::merge(format!("{NODES}/{name}/status"), ready.clone())))
        .await?;
    let lease = |name: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()},
        })
    };
    load::send_all(&api, names.map(|name| Request::create(LEASES, lease(name)))).await?;
    let program = ours::binary(Profile::Debug)?;
    let flags = [
        format!("--node-monitor-grace-period={}s", GRACE.as_secs()),
        "--node-monitor-period=500ms".to_owned(),
    ];
    let controllers = [CONTROLLER.to_owned()];
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: false, flags: &flags };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    // First it removes the taints that the server gives to new nodes.
    let beating = Heartbeats::start(&api, &names);
    until("nodes without taints", Duration::from_secs(60), || async {
        let nodes = load::list(&api, NODES).await?;
        Ok((!nodes.iter().all(|node| node["spec"]["taints"].is_null())).then(|| "taints".to_owned()))
    })
    .await?;

    cluster.stop_apiserver().await?;
    tokio::time::sleep(AWAY).await;
    cluster.start_apiserver().await?;
    // Long enough for a node to be given up that was last seen before the outage.
    tokio::time::sleep(2 * GRACE).await;
    for node in load::list(&api, NODES).await? {
        ensure!(status(&node) == "True", "{} was given up: {}", node["metadata"]["name"], node["status"]);
    }

    drop(beating);
    let _beating = Heartbeats::start(&api, &names[1..]);
    // Suspended checks discount time, on a slow machine more than once.
    until("a node that stays silent to be given up", Duration::from_secs(180), || async {
        let silent = api.get(&format!("{NODES}/node-1")).await?;
        Ok((status(&silent) != "Unknown").then(|| status(&silent).to_owned()))
    })
    .await?;
    for name in &names[1..] {
        let node = api.get(&format!("{NODES}/{name}")).await?;
        ensure!(status(&node) == "True", "{name} was given up: {}", node["status"]);
    }
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}

/// Renews the leases of nodes as their kubelets do, through an outage, too, until it is dropped.
struct Heartbeats(JoinHandle<()>);

impl Heartbeats {
    fn start(api: &Arc<Api>, names: &[&str]) -> Self {
        let leases: Vec<String> = names.iter().map(|name| format!("{LEASES}/{name}")).collect();
        let api = Arc::clone(api);
        Self(tokio::spawn(async move {
            loop {
                let body = || json!({"spec": {"renewTime": now()}});
                let requests: Vec<Request> =
                    leases.iter().map(|lease| Request::merge(lease.clone(), body())).collect();
                // A server that is away is asked again.
                let _ = load::send_all(&api, requests).await;
                tokio::time::sleep(BEAT).await;
            }
        }))
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn status(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
