//! The cloud-controller-manager from end to end: machines are created, stopped and deleted, with load balancers and routes.
//! In process, under faults of the server, of the cloud and of itself, it ends the same as without; on a real control plane
//! the built program does it with its own accounts and nothing is refused. Skipped there without assets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_cloud::CloudError;
use flyball_cloud::simulated::{Call, Config, Simulated};
use flyball_sim::api::Api;
use flyball_sim::audit::Entry;
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::embedded::Embedded;
use flyball_sim::faults::Faults;
use flyball_sim::features::Features;
use flyball_sim::load::{self, Request, until};
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use serde_json::{Value, json};

const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// In virtual time waiting costs nothing, and faults take much of it.
const PATIENCE: Duration = Duration::from_secs(3600);
const SILENT_FOR: Duration = Duration::from_secs(60);

fn flags() -> Vec<String> {
    let flags =
        ["--cluster-cidr=10.244.0.0/16", "--node-monitor-period=1s", "--route-reconciliation-period=1s"];
    flags.map(str::to_owned).into_iter().chain(["--node-status-update-frequency=5s".to_owned()]).collect()
}

/// Machines by name and state, in a file.
struct Machines {
    file: PathBuf,
    patience: Duration,
}

impl Machines {
    fn are(&self, machines: &[(&str, &str)]) -> anyhow::Result<()> {
        let machine = |(name, state): &(&str, &str)| {
            let number = name.as_bytes().first().copied().unwrap_or_default();
            let address = json!({"type": "InternalIP", "address": format!("10.0.0.{number}")});
            json!({
                "name": name, "id": format!("i-{name}"), "type": "large", "zone": "z", "region": "r",
                "state": state, "addresses": [address],
            })
        };
        let cloud = json!({
            "machines": machines.iter().map(machine).collect::<Vec<_>>(),
            "loadBalancers": {"addresses": ["192.0.2.0/24"]},
            "routes": [{"node": "gone", "destination": "10.244.200.0/24"}],
        });
        // Renamed into place, so that a reader never sees half of it.
        let new = self.file.with_extension("new");
        std::fs::write(&new, cloud.to_string()).context("write the cloud's file")?;
        std::fs::rename(new, &self.file).context("move the cloud's file into its place")
    }
}

/// The steps of the test, for every backend.
async fn play(api: &Api, machines: &Machines) -> anyhow::Result<()> {
    let patience = machines.patience;
    machines.are(&[("a", "running"), ("b", "running")])?;
    load::send_all(api, ["a", "b"].map(|name| Request::create(NODES, node(name)))).await?;
    load::send_all(api, ["a", "b"].map(|name| ready(name, "True"))).await?;
    for name in ["a", "b"] {
        until("a node to be initialised", patience, || is_complete(api, name)).await?;
    }
    load::send_all(api, ["web", "kept"].map(|name| Request::create(SERVICES, service(name)))).await?;
    for name in ["web", "kept"] {
        until("a load balancer", patience, || async {
            let service = api.get(&format!("{SERVICES}/{name}")).await?;
            Ok(service["status"]["loadBalancer"]["ingress"].is_null().then(|| name.to_owned()))
        })
        .await?;
    }

    machines.are(&[("a", "running"), ("b", "running"), ("c", "running")])?;
    load::send_all(api, [Request::create(NODES, node("c"))]).await?;
    load::send_all(api, [ready("c", "True")]).await?;
    until("another node to be initialised", patience, || is_complete(api, "c")).await?;

    machines.are(&[("a", "running"), ("b", "stopped")])?;
    load::send_all(api, ["b", "c"].map(|name| ready(name, "Unknown"))).await?;
    until("a stopped machine's node to be tainted", patience, || async {
        let node = api.get(&format!("{NODES}/b")).await?;
        Ok((!has_taint(&node, SHUTDOWN)).then(|| node["spec"].to_string()))
    })
    .await?;
    until("the node of a machine that is gone to go", patience, || async {
        let nodes = load::list(api, NODES).await?;
        Ok(nodes.iter().any(|node| node["metadata"]["name"] == "c").then(|| "c".to_owned()))
    })
    .await?;

    load::send_all(api, [Request::delete(format!("{SERVICES}/web"), json!({}))]).await?;
    until("a service to be let go", patience, || async {
        let services = load::list(api, SERVICES).await?;
        Ok(services.iter().any(|service| service["metadata"]["name"] == "web").then(|| "web".to_owned()))
    })
    .await?;
    Ok(())
}

fn node(name: &str) -> Value {
    let range = format!("10.244.{}.0/24", name.as_bytes().first().copied().unwrap_or_default());
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kept": "yes"}},
        "spec": {
            "podCIDR": range, "podCIDRs": [range],
            "taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}],
        },
    })
}

fn ready(name: &str, status: &str) -> Request {
    let body = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    Request::merge(format!("{NODES}/{name}/status"), body)
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    })
}

fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
}

async fn is_complete(api: &Api, name: &str) -> Result<Option<String>, flyball_sim::api::Error> {
    let node = api.get(&format!("{NODES}/{name}")).await?;
    let conditions = node["status"]["conditions"].as_array();
    let routed = conditions.into_iter().flatten().any(|condition| condition["reason"] == "RouteCreated");
    let complete = routed
        && !has_taint(&node, UNINITIALIZED)
        && node["spec"]["providerID"] == format!("simulated://i-{name}")
        && node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z"
        && node["metadata"]["labels"]["kept"] == "yes"
        && node["status"]["addresses"][0]["type"] == "InternalIP";
    Ok((!complete).then(|| node.to_string()))
}

/// The final state, without random names and times.
async fn end_state(api: &Api, cloud: &Simulated) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut end = BTreeMap::new();
    for node in load::list(api, NODES).await? {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition_of =
            |condition: &Value| json!([condition["type"], condition["status"], condition["reason"]]);
        let shown = json!({
            "labels": node["metadata"]["labels"], "spec": node["spec"], "addresses": node["status"]["addresses"],
            "conditions": conditions.iter().map(condition_of).collect::<Vec<_>>(),
        });
        end.insert(format!("node {}", node["metadata"]["name"]), shown);
    }
    for service in load::list(api, SERVICES).await? {
        let ingress = service["status"]["loadBalancer"]["ingress"].as_array().map_or(0, Vec::len);
        let shown = json!({"finalizers": service["metadata"]["finalizers"], "addresses": ingress});
        end.insert(format!("service {}", service["metadata"]["name"]), shown);
    }
    for balancer in cloud.balancers().values() {
        let nodes: Vec<&str> = balancer.nodes.iter().map(|node| node.as_str()).collect();
        end.insert(format!("balancer of {}", balancer.service), json!([nodes, balancer.addresses.len()]));
    }
    let mut routes: Vec<String> =
        cloud.routes().iter().map(|route| format!("{} to {}", route.destination, route.node)).collect();
    routes.sort_unstable();
    end.insert("routes".to_owned(), json!(routes));
    Ok(end)
}

/// Runs the steps in process and in virtual time; returns the final state and the number of writes.
fn embedded(
    faults: Option<std::sync::Arc<Faults>>,
    failing: Option<Call>,
) -> anyhow::Result<(BTreeMap<String, Value>, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let faults = faults.unwrap_or_else(|| Faults::crash_after(u64::MAX));
        let folder = tempfile::tempdir()?;
        let machines = Machines { file: folder.path().join("cloud.yaml"), patience: PATIENCE };
        machines.are(&[])?;
        let simulated = Simulated::from_file(&machines.file)?;
        if let Some(call) = failing {
            simulated.fail(call, CloudError::failed("out of order"));
            simulated.fail(
                call,
                CloudError::RetryAfter { message: "not yet".to_owned(), after: Duration::from_secs(2) },
            );
        }
        let mut cluster =
            Embedded::start("2026-06-01T12:00:00Z".parse::<Timestamp>()?, 1, &Features::default())?;
        cluster.put_faults(faults.clone());
        let api = Api::discover(cluster.client()).await?;
        let all = ["*".to_owned()];
        let manager = cluster.start_cloud_manager(simulated.cloud(), &all, &flags())?;
        play(&api, &machines).await?;
        faults.end();
        manager.stop(Duration::from_secs(10)).await;

        // Another manager repairs what is left; then neither it nor a third one writes anything.
        let manager = cluster.start_cloud_manager(simulated.cloud(), &all, &flags())?;
        tokio::time::sleep(SILENT_FOR).await;
        cluster.audit();
        tokio::time::sleep(SILENT_FOR).await;
        silent(&cluster.audit())?;
        manager.stop(Duration::from_secs(10)).await;
        let manager = cluster.start_cloud_manager(simulated.cloud(), &all, &flags())?;
        tokio::time::sleep(SILENT_FOR).await;
        silent(&cluster.audit())?;
        manager.stop(Duration::from_secs(10)).await;
        Ok((end_state(&api, &simulated).await?, faults.writes()))
    })
}

fn silent(entries: &[Entry]) -> anyhow::Result<()> {
    let is_change = |entry: &&Entry| {
        entry.by_manager() && entry.is_write() && entry.resource != "events" && entry.subresource != "token"
    };
    let writes: Vec<&Entry> = entries.iter().filter(is_change).collect();
    ensure!(writes.is_empty(), "written though all is settled: {writes:#?}");
    Ok(())
}

#[test]
fn machines_balancers_and_routes_come_and_go() -> anyhow::Result<()> {
    let (end, _) = embedded(None, None)?;
    assert_eq!(end["balancer of default/kept"], json!([["a", "b"], 1]));
    assert_eq!(end["routes"], json!(["10.244.97.0/24 to a", "10.244.98.0/24 to b"]));
    assert!(!end.contains_key("balancer of default/web") && !end.contains_key("node \"c\""), "{end:#?}");
    Ok(())
}

#[test]
fn a_crash_after_any_write_changes_nothing_in_the_end() -> anyhow::Result<()> {
    let (baseline, writes) = embedded(None, None)?;
    for write in 1..=writes {
        let (end, _) = embedded(Some(Faults::crash_after(write)), None)
            .with_context(|| format!("crash after write {write} of {writes}"))?;
        assert_eq!(end, baseline, "crash after write {write} of {writes}");
    }
    Ok(())
}

#[test]
fn whatever_the_server_does_it_ends_the_same() -> anyhow::Result<()> {
    let (baseline, _) = embedded(None, None)?;
    for seed in 1..=12 {
        let (end, _) =
            embedded(Some(Faults::random(seed, &[])), None).with_context(|| format!("seed {seed}"))?;
        assert_eq!(end, baseline, "seed {seed}");
    }
    Ok(())
}

#[test]
fn whatever_the_cloud_fails_at_it_ends_the_same() -> anyhow::Result<()> {
    let (baseline, _) = embedded(None, None)?;
    let calls = [
        Call::InstanceExists,
        Call::InstanceIsShutDown,
        Call::InstanceMetadata,
        Call::GetBalancer,
        Call::EnsureBalancer,
        Call::UpdateBalancer,
        Call::DeleteBalancer,
        Call::ListRoutes,
        Call::CreateRoute,
        Call::DeleteRoute,
    ];
    for call in calls {
        let (end, _) = embedded(None, Some(call)).with_context(|| format!("{call:?} fails"))?;
        assert_eq!(end, baseline, "{call:?} fails");
    }
    Ok(())
}

#[test]
fn no_node_goes_because_its_cloud_fails_to_find_a_machine() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let folder = tempfile::tempdir()?;
        let machines = Machines { file: folder.path().join("cloud.yaml"), patience: PATIENCE };
        machines.are(&[("a", "running")])?;
        let simulated = Simulated::from_file(&machines.file)?;
        let cluster = Embedded::start("2026-06-01T12:00:00Z".parse::<Timestamp>()?, 1, &Features::default())?;
        let api = Api::discover(cluster.client()).await?;
        load::send_all(&api, [Request::create(NODES, node("a"))]).await?;
        load::send_all(&api, [ready("a", "Unknown")]).await?;
        // For ten rounds the cloud does not find the machine; then it says that it is stopped.
        for _ in 0..10 {
            simulated.fail(Call::InstanceExists, CloudError::InstanceNotFound);
        }
        machines.are(&[("a", "stopped")])?;
        let lifecycle = ["cloud-node-lifecycle-controller".to_owned()];
        let manager = cluster.start_cloud_manager(simulated.cloud(), &lifecycle, &flags())?;
        until("a stopped machine's node to be tainted", PATIENCE, || async {
            let found = load::list(&api, NODES).await?;
            Ok(found.first().is_some_and(|node| !has_taint(node, SHUTDOWN)).then(|| "not tainted".to_owned()))
        })
        .await?;
        assert_eq!(load::list(&api, NODES).await?.len(), 1, "the Node is still there");
        manager.stop(Duration::from_secs(10)).await;
        Ok(())
    })
}

#[test]
fn a_cloud_that_has_forgotten_gives_nobody_what_another_shows() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let cluster = Embedded::start("2026-06-01T12:00:00Z".parse::<Timestamp>()?, 1, &Features::default())?;
        let api = Api::discover(cluster.client()).await?;
        // Services that are created later sort earlier by name.
        for (name, want) in [("c", "192.0.2.1"), ("b", "192.0.2.2"), ("a", "192.0.2.3")] {
            load::send_all(&api, [Request::create(SERVICES, service(name))]).await?;
            let simulated = Simulated::new(Config::default());
            let all = ["*".to_owned()];
            let manager = cluster.start_cloud_manager(simulated.cloud(), &all, &[])?;
            until("an address", PATIENCE, || async {
                let service = api.get(&format!("{SERVICES}/{name}")).await?;
                let ip = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
                Ok((ip != want).then(|| ip.to_string()))
            })
            .await?;
            manager.stop(Duration::from_secs(10)).await;
        }
        Ok(())
    })
}

#[tokio::test]
async fn the_program_does_it_on_a_real_server_and_nothing_is_refused() -> anyhow::Result<()> {
    Cluster::play("the_program_does_it_on_a_real_server_and_nothing_is_refused", real).await
}

async fn real(cluster: &mut Cluster) -> anyhow::Result<()> {
    let program = ours::build("cloud-controller-manager", Profile::Debug)?;
    let api = cluster.api().await?;
    let machines = Machines { file: cluster.dir().join("cloud.yaml"), patience: Duration::from_secs(60) };
    machines.are(&[])?;
    let mut flags = flags();
    flags.push("--cloud-provider=simulated".to_owned());
    flags.push(format!("--cloud-config={}", machines.file.display()));
    let manager = Manager { binary: &program, controllers: &[], leader_elect: true, flags: &flags };
    let mut process = cluster.start_cloud_manager(&manager)?;
    play(&api, &machines).await?;
    let lease = api
        .get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager")
        .await?;
    ensure!(lease["spec"]["holderIdentity"].is_string(), "{lease}");
    process.stop(Duration::from_secs(20)).await?;
    let mut refused = cluster.audit_log().read()?;
    refused.retain(|entry| entry.by_manager() && entry.code == 403);
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    Ok(())
}
