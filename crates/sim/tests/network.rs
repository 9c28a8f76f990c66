//! Bad networks between the controller manager and a real API server: connections that are slow, that end, or that
//! carry nothing, and a log that nobody reads. Skipped without assets.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::time::Duration;

use flyball_sim::api::Api;
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::load::{self, Request, count, until};
use flyball_sim::ours::{self, Profile};
use flyball_sim::proxy::{Direction, Flow, Proxy};

const CONTROLLER: &str = "replicaset-controller";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const PODS_EACH: u64 = 5;
/// Twice a request's time-out: on a good day one of them is all that a dead connection costs.
const PATIENCE: Duration = Duration::from_secs(64);

/// A ReplicaSet more, and the time until its pods are there.
async fn one_more(api: &Api, name: &str, sets: &mut u64) -> anyhow::Result<()> {
    let (pods, path) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    load::send_all(api, [Request::create(&path, load::workload("ReplicaSet", name, PODS_EACH))]).await?;
    *sets += 1;
    let wanted = *sets * PODS_EACH;
    let took = until(&format!("the pods of {name}"), PATIENCE, || async {
        let seen = count(api, &pods).await?;
        Ok((seen != wanted).then(|| format!("{seen} pods of {wanted}")))
    })
    .await?;
    println!("{name}: {:.1} s", took.as_secs_f64());
    Ok(())
}

#[tokio::test]
async fn a_bad_network_costs_neither_the_lease_nor_work() -> anyhow::Result<()> {
    let test = "a_bad_network_costs_neither_the_lease_nor_work";
    if let Some(skip) = ours::lacks(&[CONTROLLER]) {
        skip.announce(test);
        return Ok(());
    }
    Cluster::play(test, suffer).await
}

async fn suffer(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let proxy = Proxy::start(cluster.apiserver_address()).await?;
    let kubeconfig = cluster.kubeconfig_by_way_of(proxy.address())?;
    let flags = [format!("--kubeconfig={}", kubeconfig.display()), "-v=2".to_owned()];
    let (program, controllers) = (ours::binary(Profile::Debug)?, [CONTROLLER.to_owned()]);
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    let mut sets = 0;
    one_more(&api, "on-a-good-day", &mut sets).await?;
    let holder = |lease: serde_json::Value| lease["spec"]["holderIdentity"].to_string();
    let held_by = holder(api.get(LEASE).await?);

    for link in proxy.links() {
        link.set(Direction::ToServer, Flow::Delay(Duration::from_millis(100)));
        link.set(Direction::ToClient, Flow::Delay(Duration::from_millis(100)));
    }
    one_more(&api, "slow", &mut sets).await?;
    proxy.links().iter().for_each(|link| link.cut());
    one_more(&api, "cut", &mut sets).await?;
    proxy.links().iter().for_each(|link| link.reset());
    one_more(&api, "reset", &mut sets).await?;
    proxy.busiest().iter().for_each(|link| link.blackhole());
    one_more(&api, "busiest-blackholed", &mut sets).await?;
    let deaf = proxy.links();
    deaf.iter().for_each(|link| link.set(Direction::ToServer, Flow::Blackhole));
    one_more(&api, "server-hears-nothing", &mut sets).await?;
    let mute = proxy.links();
    mute.iter().for_each(|link| link.set(Direction::ToClient, Flow::Blackhole));
    one_more(&api, "client-hears-nothing", &mut sets).await?;
    let gone = proxy.links();
    gone.iter().for_each(|link| link.blackhole());
    one_more(&api, "all-blackholed", &mut sets).await?;

    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");
    anyhow::ensure!(holder(api.get(LEASE).await?) == held_by, "the lease has another holder");
    println!("{} connections in all", proxy.accepted());
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nothing() -> anyhow::Result<()> {
    let test = "a_log_that_nobody_reads_stops_nothing";
    if let Some(skip) = ours::lacks(&[CONTROLLER]) {
        skip.announce(test);
        return Ok(());
    }
    Cluster::play(test, shout).await
}

async fn shout(cluster: &mut Cluster) -> anyhow::Result<()> {
    const SETS: u64 = 100;
    const EACH: u64 = 25;
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let program = ours::binary(Profile::Debug)?;
    // The log is a pipe. Its reader is here, and does not read.
    let log = cluster.dir().join("unheard.log");
    anyhow::ensure!(Command::new("mkfifo").arg(&log).status()?.success(), "mkfifo failed");
    let reader: File = OpenOptions::new().read(true).write(true).open(&log)?;
    let flags: Vec<String> =
        ["--kube-api-qps=200", "--kube-api-burst=300", "-v=9"].into_iter().map(str::to_owned).collect();
    let controllers = [CONTROLLER.to_owned()];
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager("unheard", &manager)?;
    let (pods, sets) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    let load =
        (0..SETS).map(|i| Request::create(&sets, load::workload("ReplicaSet", &format!("rs-{i}"), EACH)));
    load::send_all(&api, load).await?;
    until("all pods", Duration::from_secs(300), || async {
        let seen = count(&api, &pods).await?;
        Ok((seen != SETS * EACH).then(|| format!("{seen} pods")))
    })
    .await?;

    // Now somebody reads: the log goes on, and says what it lacks, as there was far more than a pipe and a buffer hold.
    let told = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(reader.take(64 << 20)).lines();
        lines.map_while(Result::ok).find(|line| line.contains("log lines were dropped"))
    });
    let told = tokio::time::timeout(Duration::from_secs(120), told).await??;
    println!("{}", told.as_deref().unwrap_or("nothing was told"));
    anyhow::ensure!(told.is_some(), "dropped lines were not told of");
    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");
    // Nobody reads any more, again; it must end all the same.
    let status = process.stop(Duration::from_secs(60)).await?;
    anyhow::ensure!(status.success(), "it ended with {status}");
    Ok(())
}
