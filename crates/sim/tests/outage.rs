//! The API server is away for a while, loses its history, and some objects are deleted in etcd. The controller manager must
//! survive, notice the changes, and reach the right state with no more memory than before.
//! Skipped without assets.

use std::time::Duration;

use flyball_sim::cluster::{Cluster, Manager, Usage};
use flyball_sim::load::{self, NAMESPACE, Request, count, until};
use flyball_sim::ours::{self, Profile};
use serde_json::Value;

const CONTROLLER: &str = "replicaset-controller";
const SETS: u64 = 40;
const PODS_EACH: u64 = 25;
const AWAY: Duration = Duration::from_secs(20);
const VANISH: usize = 7;
/// Memory that the allocator may keep after a relist.
const SLACK: u64 = 24 << 20;

#[tokio::test]
async fn an_outage_with_lost_history_is_survived() -> anyhow::Result<()> {
    Cluster::play("an_outage_with_lost_history_is_survived", play).await
}

async fn play(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let controllers = [CONTROLLER.to_owned()];
    let flags = ["--kube-api-qps=200".to_owned(), "--kube-api-burst=300".to_owned()];
    let program = ours::binary(Profile::Debug)?;
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: false, flags: &flags };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    let (pods, sets) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    let load = (0..SETS)
        .map(|i| Request::create(&sets, load::workload("ReplicaSet", &format!("rs-{i}"), PODS_EACH)));
    load::send_all(&api, load).await?;
    let all_there = || async {
        let seen = count(&api, &pods).await?;
        Ok((seen != SETS * PODS_EACH).then(|| format!("{seen} pods")))
    };
    until("all pods", Duration::from_secs(180), all_there).await?;
    let before = Usage::of(process.id()).unwrap_or_default();
    let victims: Vec<Value> = load::list(&api, &pods).await?.into_iter().step_by(137).take(VANISH).collect();

    cluster.stop_apiserver().await?;
    tokio::time::sleep(AWAY).await;
    for pod in &victims {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        cluster.delete_from_store(&format!("pods/{NAMESPACE}/{name}")).await?;
    }
    cluster.compact().await?;
    cluster.start_apiserver().await?;
    let mut log = cluster.audit_log();

    until("the vanished pods to be replaced", Duration::from_secs(120), all_there).await?;
    // A change after the outage is noticed, too.
    let body = serde_json::json!({"spec": {"replicas": PODS_EACH + 5}});
    load::send_all(&api, [Request::merge(format!("{sets}/rs-0"), body)]).await?;
    until("five more pods", Duration::from_secs(60), || async {
        let seen = count(&api, &pods).await?;
        Ok((seen != SETS * PODS_EACH + 5).then(|| format!("{seen} pods")))
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    anyhow::ensure!(count(&api, &pods).await? == SETS * PODS_EACH + 5, "the count did not stay");
    let entries = log.read()?;
    let made = |e: &&flyball_sim::audit::Entry| {
        e.is_write() && e.by_manager() && e.verb == "create" && e.resource == "pods" && e.code < 300
    };
    let created = entries.iter().filter(made).count() as u64;
    anyhow::ensure!(created == SETS * PODS_EACH + VANISH as u64 + 5, "{created} pods were created in all");
    let deleted = entries.iter().filter(|e| e.is_write() && e.by_manager() && e.verb == "delete").count();
    anyhow::ensure!(deleted == 0, "{deleted} deletions");

    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");
    let after = Usage::of(process.id()).unwrap_or_default();
    println!("resident memory: {} KiB before, {} KiB after", before.resident >> 10, after.resident >> 10);
    anyhow::ensure!(after.resident <= before.resident + SLACK, "memory grew from {before:?} to {after:?}");
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}
