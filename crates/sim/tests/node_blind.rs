//! The watches of nodes and leases are blackholed, without an error, or fall behind. No node becomes NotReady because of that; one
//! that really sends no heartbeats does, and at the time at which upstream does it. In virtual time.

use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::embedded::Embedded;
use flyball_sim::faults::Blackhole;
use flyball_sim::features::Features;
use flyball_sim::load::{self, Request};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

const CONTROLLERS: [&str; 2] = ["node-lifecycle-controller", "taint-eviction-controller"];
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const NAMES: [&str; 8] = ["node-1", "node-2", "node-3", "node-4", "node-5", "node-6", "node-7", "node-8"];
/// How often a kubelet renews its lease.
const RENEWAL: Duration = Duration::from_secs(10);
/// The default grace period, one monitor period, and a little.
const GRACE: Duration = Duration::from_secs(50);
const LATEST: Duration = Duration::from_secs(60);

/// The cluster, and the time in it.
struct Play {
    api: Api,
    cluster: Embedded,
}

impl Play {
    /// Nodes that are ready, with a pod on the first.
    async fn start(blackhole: &std::sync::Arc<Blackhole>) -> anyhow::Result<Self> {
        let start = "2026-06-01T12:00:00Z".parse::<Timestamp>()?;
        let mut cluster = Embedded::start(start, 1, &Features::default())?;
        cluster.put_blackhole(blackhole.clone());
        let api = Api::discover(cluster.client()).await?;
        let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        load::send_all(&api, NAMES.map(|name| Request::create(NODES, node(name)))).await?;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let status = |name: &str| Request::merge(format!("{NODES}/{name}/status"), ready.clone());
        load::send_all(&api, NAMES.map(status)).await?;
        let lease = |name: &str| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40},
            })
        };
        load::send_all(&api, NAMES.map(|name| Request::create(LEASES, lease(name)))).await?;
        load::create_namespace(&api).await?;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
        });
        load::send_all(&api, [Request::create(load::path("v1", "pods"), pod)]).await?;
        Ok(Self { api, cluster })
    }

    /// Advances the time while these nodes renew their leases.
    async fn pass(&self, time: Duration, alive: &[&str]) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let now = self.cluster.clock().now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
            let body = || json!({"spec": {"renewTime": now}});
            let renew = |name: &&str| Request::merge(format!("{LEASES}/{name}"), body());
            load::send_all(&self.api, alive.iter().map(renew)).await?;
            tokio::time::sleep(RENEWAL).await;
        }
        Ok(())
    }

    async fn lost(&self) -> anyhow::Result<Vec<String>> {
        let nodes = load::list(&self.api, NODES).await?;
        let lost = nodes.iter().filter(|node| ready(node) != "True" || is_evicting(node));
        Ok(lost.filter_map(|node| node["metadata"]["name"].as_str()).map(str::to_owned).collect())
    }

    async fn all_is_well(&self, when: &str) -> anyhow::Result<()> {
        let (lost, pods) = (self.lost().await?, load::count(&self.api, &load::path("v1", "pods")).await?);
        ensure!(lost.is_empty() && pods == 1, "{when}: lost {lost:?}, {pods} pods");
        Ok(())
    }
}

fn ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}

fn is_evicting(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().any(|taint| taint["effect"] == "NoExecute")
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_leads_nowhere_makes_no_node_lost() -> anyhow::Result<()> {
    let blackhole = Blackhole::new(&["leases", "nodes"]);
    let play = Play::start(&blackhole).await?;
    let _manager = play.cluster.start_manager(&CONTROLLERS.map(str::to_owned), &[])?;
    play.pass(Duration::from_secs(120), &NAMES).await?;
    play.all_is_well("at first").await?;

    blackhole.open();
    for minute in 1..=10 {
        play.pass(Duration::from_secs(60), &NAMES).await?;
        play.all_is_well(&format!("blind for {minute} min")).await?;
    }
    blackhole.close();
    play.pass(Duration::from_secs(120), &NAMES).await?;
    play.all_is_well("seeing again").await?;

    // It renewed its lease ten seconds ago.
    play.pass(GRACE - 2 * RENEWAL, &NAMES[1..]).await?;
    play.all_is_well("silent, but not for long").await?;
    play.pass(LATEST - GRACE + RENEWAL, &NAMES[1..]).await?;
    let lost = play.lost().await?;
    ensure!(lost == ["node-1"], "lost {lost:?}");
    Ok(())
}

/// Events come all the time, and those of each node more rarely than its grace period lasts.
#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_makes_no_node_lost() -> anyhow::Result<()> {
    let slow = Blackhole::new(&["leases"]);
    let play = Play::start(&slow).await?;
    let _manager = play.cluster.start_manager(&CONTROLLERS.map(str::to_owned), &[])?;
    play.pass(Duration::from_secs(120), &NAMES).await?;
    play.all_is_well("at first").await?;

    slow.trickle(RENEWAL);
    for minute in 1..=10 {
        play.pass(Duration::from_secs(60), &NAMES).await?;
        play.all_is_well(&format!("behind for {minute} min")).await?;
    }
    slow.trickle(Duration::ZERO);
    play.pass(Duration::from_secs(120), &NAMES).await?;
    play.all_is_well("up to date again").await?;
    play.pass(LATEST + RENEWAL, &NAMES[1..]).await?;
    let lost = play.lost().await?;
    ensure!(lost == ["node-1"], "lost {lost:?}");
    Ok(())
}

/// If all nodes are silent, the watch of leases is silent, too.
#[tokio::test(start_paused = true)]
async fn all_nodes_that_are_silent_are_lost_in_time() -> anyhow::Result<()> {
    let blackhole = Blackhole::new(&["leases", "nodes"]);
    let play = Play::start(&blackhole).await?;
    let _manager = play.cluster.start_manager(&CONTROLLERS.map(str::to_owned), &[])?;
    play.pass(Duration::from_secs(120), &NAMES).await?;
    play.pass(GRACE - 2 * RENEWAL, &[]).await?;
    play.all_is_well("silent, but not for long").await?;
    play.pass(LATEST - GRACE + RENEWAL, &[]).await?;
    let nodes = load::list(&play.api, NODES).await?;
    let lost = nodes.iter().filter(|node| ready(node) == "Unknown").count();
    ensure!(lost == NAMES.len(), "{lost} are lost");
    Ok(())
}
