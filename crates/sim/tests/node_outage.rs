//! The API server is away for longer than the node monitor's grace period. No node becomes NotReady because of that; one that
//! stays silent afterwards does. Skipped without assets.

use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::load::{self, Request, until};
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use serde_json::{Value, json};

const CONTROLLER: &str = "node-lifecycle-controller";
const GRACE: Duration = Duration::from_secs(6);
const AWAY: Duration = Duration::from_secs(12);
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
    until("nodes without taints", Duration::from_secs(60), || async {
        let nodes = load::list(&api, NODES).await?;
        renew(&api, &names).await?;
        Ok((!nodes.iter().all(|node| node["spec"]["taints"].is_null())).then(|| "taints".to_owned()))
    })
    .await?;

    cluster.stop_apiserver().await?;
    tokio::time::sleep(AWAY).await;
    cluster.start_apiserver().await?;
    tokio::time::sleep(GRACE / 3).await;
    renew(&api, &names).await?;
    tokio::time::sleep(GRACE / 2).await;
    renew(&api, &names).await?;
    for node in load::list(&api, NODES).await? {
        ensure!(status(&node) == "True", "{} was given up: {}", node["metadata"]["name"], node["status"]);
    }

    // Suspended checks discount time, on a slow machine more than once.
    until("a node that stays silent to be given up", Duration::from_secs(180), || async {
        renew(&api, &names[1..]).await?;
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

async fn renew(api: &Api, names: &[&str]) -> Result<(), flyball_sim::api::Error> {
    let body = || json!({"spec": {"renewTime": now()}});
    load::send_all(api, names.iter().map(|name| Request::merge(format!("{LEASES}/{name}"), body()))).await
}

fn status(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
