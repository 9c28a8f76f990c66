//! The load of many nodes: leases are renewed all the time, then those of some nodes are not.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use flyball_sim::load::{self, Request};
use serde_json::{Value, json};

use super::hearts::{self, ALL, name};
use super::measure::Bench;
use super::scenarios::all_are;

const NODES: usize = 1000;
const LOST: usize = 100;
const PODS_EACH: usize = 5;
const BEATING: Duration = Duration::from_secs(60);

pub(super) async fn play(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let api = Arc::clone(&bench.api);
    let hearts = hearts::join(&api, 0..NODES).await?;
    let pods = load::path("v1", "pods");
    // Only the nodes that will be lost have pods: others would cost both contenders memory, and no work.
    let members = || (0..LOST).flat_map(|n| (0..PODS_EACH).map(move |p| (n, p)));
    load::send_all(&api, members().map(|(n, p)| Request::create(&pods, pod(n, p)))).await?;
    let status = |(n, p)| Request::merge(format!("{pods}/{}/status", pod_name(n, p)), running());
    load::send_all(&api, members().map(status)).await?;
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
            hearts.stop_below(LOST);
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

fn pod_name(n: usize, p: usize) -> String {
    format!("p-{n}-{p}")
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
