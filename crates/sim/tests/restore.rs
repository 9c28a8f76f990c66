//! etcd is restored from a snapshot while the controller manager runs: versions are lower than those it has seen, and objects
//! in its caches have never existed. It must notice within a minute, create nothing twice and continue.

use std::sync::Arc;
use std::time::Duration;

use flyball_sim::api::Api;
use flyball_sim::audit::Entry;
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::embedded::Embedded;
use flyball_sim::features::Features;
use flyball_sim::load::{self, Request, count, until};
use flyball_sim::ours::{self, Profile};
use serde_json::json;

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
        for (resource, path) in [
            ("pods", load::path("v1", "pods")),
            ("replicasets.apps", load::path("apps/v1", "replicasets")),
            ("deployments.apps", load::path("apps/v1", "deployments")),
        ] {
            let there = count(&api, &path).await?;
            let line = format!("flyball_informer_objects{{resource=\"{resource}\"}} {there}\n");
            anyhow::ensure!(
                manager.metrics().contains(&line),
                "the cache of {resource} has not {there} objects"
            );
        }
        let entries = cluster.audit();
        let (created, deleted) = (pod_writes(&entries, "create"), pod_writes(&entries, "delete"));
        anyhow::ensure!((created, deleted) == (1, 0), "{created} pods were created and {deleted} deleted");
        Ok(())
    })
}

#[tokio::test]
async fn a_restored_etcd_is_noticed_within_a_minute() -> anyhow::Result<()> {
    Cluster::play("a_restored_etcd_is_noticed_within_a_minute", play).await
}

async fn play(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let program = ours::binary(Profile::Debug)?;
    let controllers = ["*".to_owned()];
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: false, flags: &[] };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    deploy(&api, "web", 3).await?;
    until_pods(&api, 3, 2 * MINUTE).await?;
    cluster.back_up().await?;
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
    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}
