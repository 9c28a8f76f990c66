//! etcd is restored from a snapshot while the controller manager runs: versions are lower than those it has seen, and objects
//! in its caches have never existed. It must notice within a minute, create nothing twice and continue.

#[path = "strangers/probe.rs"]
#[allow(dead_code, reason = "other tests attack the port")]
mod probe;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::Key;
use flyball_sim::api::Api;
use flyball_sim::audit::Entry;
use flyball_sim::cluster::{Cluster, Manager, Process};
use flyball_sim::embedded::{Embedded, RunningManager};
use flyball_sim::features::Features;
use flyball_sim::load::{self, Request, count, until};
use flyball_sim::ours::{self, Profile};
use probe::{Port, port_flags};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const MINUTE: Duration = Duration::from_secs(60);

async fn deploy(api: &Api, name: &str, replicas: u64) -> anyhow::Result<()> {
    let deployments = load::path("apps/v1", "deployments");
    Ok(load::send_all(api, [Request::create(deployments, load::workload("Deployment", name, replicas))])
        .await?)
}

async fn scale(api: &Api, name: &str, replicas: u64) -> anyhow::Result<()> {
    let path = format!("{}/{name}", load::path("apps/v1", "deployments"));
    Ok(load::send_all(api, [Request::merge(path, json!({"spec": {"replicas": replicas}}))]).await?)
}

async fn until_pods(api: &Api, wanted: u64, limit: Duration) -> anyhow::Result<Duration> {
    let pods = load::path("v1", "pods");
    until(&format!("{wanted} pods"), limit, || async {
        let seen = count(api, &pods).await?;
        Ok((seen != wanted).then(|| format!("{seen} pods")))
    })
    .await
}

/// Pods that the controller manager created or deleted.
fn pod_writes(entries: &[Entry], verb: &str) -> usize {
    let fits = |e: &&Entry| e.is_write() && e.resource == "pods" && e.verb == verb && e.code < 300;
    entries.iter().filter(fits).count()
}

/// Resources of which controllers cache parts, whose sizes are reported under the same name.
const IN_PARTS: [&str; 3] = ["configmaps", "secrets", "leases.coordination.k8s.io"];

/// The size of a cache and its resource, from a line of metrics.
fn cache(line: &str) -> Option<(&str, u64)> {
    let (resource, count) = line.strip_prefix("flyball_informer_objects{resource=\"")?.split_once("\"} ")?;
    let count = count.trim().parse().ok()?;
    (!IN_PARTS.contains(&resource)).then_some((resource, count))
}

/// Waits until every cache of a controller manager has as many objects as the server.
async fn until_caches_agree(
    api: &Api,
    name: &str,
    metrics: impl AsyncFn() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let begun = tokio::time::Instant::now();
    loop {
        let (page, mut wrong) = (metrics().await?, vec![]);
        let caches: Vec<_> = page.lines().filter_map(cache).collect();
        anyhow::ensure!(caches.len() > 30, "{name} has {} caches", caches.len());
        for (resource, cached) in &caches {
            let there = api.list_named(resource, None, None).await?.len() as u64;
            if there != *cached {
                wrong.push(format!("{resource}: {cached} in the cache, {there} in the server"));
            }
        }
        if wrong.is_empty() {
            println!("{name}: {} caches agree with the server", caches.len());
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < MINUTE, "{name}, a minute later: {}", wrong.join("; "));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Checks that caches with as many objects as the server have the same ones: each in the server's version.
async fn caches_hold_what_the_server_has(api: &Api, manager: &RunningManager) -> anyhow::Result<()> {
    let page = manager.metrics();
    let mut compared = 0;
    for (resource, _) in page.lines().filter_map(cache) {
        let kind = api.resource(resource).await?.as_type();
        for object in api.list_named(resource, None, None).await? {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let key = Key::new(text("namespace"), text("name"));
            let held = manager.holds(&kind, &key).map(|version| version.to_string());
            let there = text("resourceVersion");
            anyhow::ensure!(
                held.as_deref() == Some(there),
                "{resource} {key}: {there} in the server, {held:?} in the cache"
            );
            compared += 1;
        }
    }
    anyhow::ensure!(compared > 20, "only {compared} objects were compared");
    Ok(())
}

#[test]
fn a_restored_embedded_server_is_noticed_by_all_controllers() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let mut cluster = Embedded::start("2026-06-01T12:00:00Z".parse()?, 7, &Features::default())?;
        let api = Arc::new(Api::discover(cluster.client()).await?);
        load::create_namespace(&api).await?;
        let manager = cluster.start_manager(&["*".to_owned()], &[])?;
        deploy(&api, "web", 3).await?;
        until_pods(&api, 3, MINUTE).await?;
        tokio::time::sleep(MINUTE).await;
        let snapshot = cluster.version();
        scale(&api, "web", 5).await?;
        deploy(&api, "late", 4).await?;
        until_pods(&api, 9, MINUTE).await?;
        tokio::time::sleep(MINUTE).await;
        cluster.audit();

        cluster.restore(snapshot)?;
        anyhow::ensure!(count(&api, &load::path("v1", "pods")).await? == 3, "restored");
        scale(&api, "web", 4).await?;
        tokio::time::sleep(MINUTE).await;
        anyhow::ensure!(count(&api, &load::path("v1", "pods")).await? == 4, "it did not act within a minute");
        until_caches_agree(&api, "embedded", async || Ok(manager.metrics())).await?;
        caches_hold_what_the_server_has(&api, &manager).await?;
        let entries = cluster.audit();
        let (created, deleted) = (pod_writes(&entries, "create"), pod_writes(&entries, "delete"));
        anyhow::ensure!((created, deleted) == (1, 0), "{created} pods were created and {deleted} deleted");
        Ok(())
    })
}

#[tokio::test]
async fn a_restored_etcd_is_noticed_within_a_minute() -> anyhow::Result<()> {
    let play = async |cluster: &mut Cluster| play(cluster, &["alone"]).await;
    Cluster::play("a_restored_etcd_is_noticed_within_a_minute", play).await
}

/// The lease is restored, too. The leader may lose it while the server is away; then the standby acts on a cluster of the past.
#[tokio::test]
async fn a_restored_etcd_is_noticed_by_a_leader_and_its_standby() -> anyhow::Result<()> {
    let play = async |cluster: &mut Cluster| play(cluster, &["one", "other"]).await;
    Cluster::play("a_restored_etcd_is_noticed_by_a_leader_and_its_standby", play).await
}

/// A controller manager and its port.
struct Served {
    process: Process,
    port: Port,
}

impl Served {
    async fn start(cluster: &Cluster, name: &str, leader_elect: bool) -> anyhow::Result<Self> {
        let (program, controllers) = (ours::binary(Profile::Debug)?, ["*".to_owned()]);
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?;
        let mut flags = port_flags(cluster, address).to_vec();
        flags.push("--authorization-always-allow-paths=/healthz,/metrics".to_owned());
        let manager = Manager { binary: &program, controllers: &controllers, leader_elect, flags: &flags };
        let process = cluster.start_manager(name, &manager)?;
        let port = Port::of(cluster, address)?;
        port.serves().await?;
        Ok(Self { process, port })
    }

    async fn metrics(&self) -> anyhow::Result<String> {
        let (mut stream, mut answer) = (self.port.connect().await?, vec![]);
        // Without chunks, which would break lines.
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n").await?;
        // The server may close the connection without an orderly end of TLS.
        let _ = stream.read_to_end(&mut answer).await;
        Ok(String::from_utf8(answer)?)
    }
}

async fn play(cluster: &mut Cluster, names: &[&str]) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let mut managers = vec![];
    for name in names {
        managers.push(Served::start(cluster, name, names.len() > 1).await?);
    }
    deploy(&api, "web", 3).await?;
    until_pods(&api, 3, 2 * MINUTE).await?;
    cluster.back_up().await?;
    // The server was away for the backup, too: a leader that could not renew its lease has ended. As a kubelet would do it.
    for (manager, name) in managers.iter_mut().zip(names) {
        if manager.process.ended().is_some() {
            *manager = Served::start(cluster, &format!("{name}-again"), true).await?;
        }
    }
    scale(&api, "web", 5).await?;
    deploy(&api, "late", 20).await?;
    until_pods(&api, 25, 2 * MINUTE).await?;

    cluster.restore().await?;
    let mut log = cluster.audit_log();
    log.read()?;
    scale(&api, "web", 4).await?;
    let took = until_pods(&api, 4, MINUTE).await?;
    println!("a restored etcd was noticed, and acted upon, after {took:?}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    anyhow::ensure!(count(&api, &load::path("v1", "pods")).await? == 4, "the count did not stay");
    let entries = log.read()?;
    let (created, deleted) = (pod_writes(&entries, "create"), pod_writes(&entries, "delete"));
    anyhow::ensure!((created, deleted) == (1, 0), "{created} pods were created and {deleted} deleted");
    // A leader that could not renew its lease has ended; nobody else has.
    managers.retain_mut(|manager| manager.process.ended().is_none());
    let most = names.len() - managers.len();
    anyhow::ensure!(!managers.is_empty() && most <= 1, "{most} of {} managers ended", names.len());
    for (n, mut manager) in managers.into_iter().enumerate() {
        until_caches_agree(&api, &format!("manager {n}"), async || manager.metrics().await).await?;
        manager.process.stop(Duration::from_secs(20)).await?;
    }
    Ok(())
}
