//! Two controller managers, one lease: the leader is killed while it creates thousands of pods, or while it assigns pod CIDRs
//! to nodes. The standby must take over in time, the count must be exact, and no range may be assigned twice. Upstream's
//! binary may be either of the two. Skipped without assets.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use flyball_sim::api::Api;
use flyball_sim::audit::Entry;
use flyball_sim::cluster::{Assets, Cluster, Manager, Process};
use flyball_sim::load::{self, Request, count, until};
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use serde_json::{Value, json};

const SETS_OF_PODS: Play =
    Play { controller: "replicaset-controller", flags: &["--kube-api-qps=200", "--kube-api-burst=300"] };
/// Slow enough that a leader has work in its queues when it is stopped, with a lease that a test can wait for.
const STOPPED: Play = Play {
    controller: "replicaset-controller",
    flags: &[
        "--kube-api-qps=5",
        "--kube-api-burst=5",
        "--leader-elect-lease-duration=6s",
        "--leader-elect-renew-deadline=4s",
        "--leader-elect-retry-period=1s",
    ],
};
/// Slow enough that a leader can be killed meanwhile; one range more than there are nodes.
const NODE_RANGES: Play = Play {
    controller: "node-ipam-controller",
    flags: &[
        "--kube-api-qps=50",
        "--kube-api-burst=20",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.0.0.0/16,fd00::/48",
        "--service-cluster-ip-range=10.0.255.0/24",
        "--node-cidr-mask-size-ipv4=25",
    ],
};
const NODES: u64 = 500;
const SETS: u64 = 100;
const PODS_EACH: u64 = 50;
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
/// Lease duration, one retry with its jitter, and something for a busy machine.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(15 + 5 + 10);

/// Tests that share two cores and measure seconds must not run in parallel.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The flags of both managers.
struct Play {
    controller: &'static str,
    flags: &'static [&'static str],
}

/// The controller manager under test.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Ours,
    Upstreams,
}

impl Side {
    fn program(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Ours => ours::binary(Profile::Debug),
            Self::Upstreams => Ok(Assets::find()?.upstream_manager()?),
        }
    }
}

#[tokio::test]
async fn a_standby_of_ours_takes_over_from_ours() -> anyhow::Result<()> {
    fails_over("a_standby_of_ours_takes_over_from_ours", Side::Ours, Side::Ours).await
}

#[tokio::test]
async fn a_standby_of_ours_takes_over_from_upstreams() -> anyhow::Result<()> {
    fails_over("a_standby_of_ours_takes_over_from_upstreams", Side::Upstreams, Side::Ours).await
}

#[tokio::test]
async fn a_standby_of_upstreams_takes_over_from_ours() -> anyhow::Result<()> {
    fails_over("a_standby_of_upstreams_takes_over_from_ours", Side::Ours, Side::Upstreams).await
}

#[tokio::test]
async fn no_range_is_given_twice_when_ours_takes_over_from_ours() -> anyhow::Result<()> {
    let test = "no_range_is_given_twice_when_ours_takes_over_from_ours";
    stage(test, &NODE_RANGES, async |cluster| give_ranges(cluster, Side::Ours, Side::Ours).await).await
}

#[tokio::test]
async fn no_range_is_given_twice_when_ours_takes_over_from_upstreams() -> anyhow::Result<()> {
    let test = "no_range_is_given_twice_when_ours_takes_over_from_upstreams";
    stage(test, &NODE_RANGES, async |cluster| give_ranges(cluster, Side::Upstreams, Side::Ours).await).await
}

#[tokio::test]
async fn a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing() -> anyhow::Result<()> {
    let test = "a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing";
    stage(test, &STOPPED, async |cluster| stop_and_go_on(cluster).await).await
}

async fn fails_over(test: &str, leader: Side, standby: Side) -> anyhow::Result<()> {
    stage(test, &SETS_OF_PODS, async |cluster| make_pods(cluster, leader, standby).await).await
}

/// Runs on a cluster while no other test of this file does, if there are assets.
async fn stage(
    test: &str,
    play: &Play,
    acts: impl AsyncFnOnce(&mut Cluster) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let _turn = ALONE.lock().await;
    if let Some(skip) = ours::lacks(&[play.controller]) {
        skip.announce(test);
        return Ok(());
    }
    Cluster::play(test, acts).await
}

/// Kills the leader while it assigns ranges to nodes; more nodes are created while there is no leader.
async fn give_ranges(cluster: &Cluster, leader: Side, standby: Side) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let mut log = cluster.audit_log();
    let mut first = start(cluster, "leader", &leader.program()?, &NODE_RANGES)?;
    let old_holder = until_held(&api, None, Duration::from_secs(60)).await?;
    let mut second = start(cluster, "standby", &standby.program()?, &NODE_RANGES)?;
    until_standing_by(cluster, &mut log).await?;

    let nodes = "/api/v1/nodes";
    let node = |i| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{i}")}});
    let join = |range: Range<u64>| load::send_all(&api, range.map(|i| Request::create(nodes, node(i))));
    let ranges_of = |node: &Value| node["spec"]["podCIDRs"].as_array().cloned().unwrap_or_default();
    let at_least = |wanted: u64| {
        let api = &api;
        move || async move {
            let seen = load::count_if(api, nodes, |node| !ranges_of(node).is_empty()).await? as u64;
            Ok((seen < wanted).then(|| format!("{seen} nodes have ranges")))
        }
    };
    join(0..NODES / 2).await?;
    until("ranges for some nodes", Duration::from_secs(60), at_least(NODES / 8)).await?;
    first.kill();
    join(NODES / 2..NODES).await?;
    until_held(&api, Some(&old_holder), TAKEN_OVER_WITHIN).await?;
    until("ranges for all nodes", Duration::from_secs(120), at_least(NODES)).await?;

    anyhow::ensure!(second.ended().is_none(), "the standby ended");
    let mut given: BTreeMap<String, u64> = BTreeMap::new();
    for node in load::list(&api, nodes).await? {
        let ranges = ranges_of(&node);
        anyhow::ensure!(ranges.len() == 2, "{} has {ranges:?}", node["metadata"]["name"]);
        ranges.iter().for_each(|range| *given.entry(range.to_string()).or_default() += 1);
    }
    given.retain(|range, nodes| *nodes > 1 || range.starts_with("\"10.0.255."));
    anyhow::ensure!(given.is_empty(), "given twice, or a Service's: {given:?}");
    second.stop(Duration::from_secs(20)).await?;
    Ok(())
}

/// Pauses the leader while it creates pods; it continues when the standby has created the rest.
async fn stop_and_go_on(cluster: &Cluster) -> anyhow::Result<()> {
    const PODS: u64 = 40;
    let api = cluster.api().await?;
    let mut log = cluster.audit_log();
    load::create_namespace(&api).await?;
    let mut first = start(cluster, "leader", &Side::Ours.program()?, &STOPPED)?;
    let old_holder = until_held(&api, None, Duration::from_secs(60)).await?;
    let mut second = start(cluster, "standby", &Side::Ours.program()?, &STOPPED)?;
    until_standing_by(cluster, &mut log).await?;

    let (pods, sets) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    let set = load::workload("ReplicaSet", "rs", PODS);
    load::send_all(&api, [Request::create(&sets, set)]).await?;
    let at_least = |wanted: u64| {
        let (api, pods) = (&api, &pods);
        move || async move {
            let seen = count(api, pods).await?;
            Ok((seen < wanted).then(|| format!("{seen} pods")))
        }
    };
    until("some pods", Duration::from_secs(60), at_least(PODS / 5)).await?;
    first.pause();
    let before = count(&api, &pods).await?;
    anyhow::ensure!(before < PODS, "the leader had nothing left to do when it was stopped");
    until_held(&api, Some(&old_holder), TAKEN_OVER_WITHIN).await?;
    until("all pods", Duration::from_secs(120), at_least(PODS)).await?;
    until("the status", Duration::from_secs(60), || async {
        let set = api.get(&format!("{sets}/rs")).await?;
        let seen = set["status"]["replicas"].as_u64();
        Ok((seen != Some(PODS)).then(|| format!("{seen:?} replicas")))
    })
    .await?;
    let settled = successes(&log.read()?, "create", "pods") as u64;
    first.go_on();
    let ended = first.wait_at_most(Duration::from_secs(20)).await?;
    anyhow::ensure!(!ended.success(), "who has lost its lease ends with a failure");
    // All its requests would have been answered by now.
    tokio::time::sleep(Duration::from_secs(2)).await;

    anyhow::ensure!(settled == PODS, "{settled} pods were created");
    let late: Vec<Entry> = log.read()?.into_iter().filter(|e| e.by_manager() && e.is_write()).collect();
    let counts = |e: &&Entry| !matches!(e.resource.as_str(), "leases" | "events");
    let late: Vec<&Entry> = late.iter().filter(counts).collect();
    anyhow::ensure!(late.is_empty(), "written after it went on: {late:?}");
    anyhow::ensure!(count(&api, &pods).await? == PODS, "{} pods", count(&api, &pods).await?);
    anyhow::ensure!(second.ended().is_none(), "the standby ended");
    second.stop(Duration::from_secs(20)).await?;
    Ok(())
}

async fn make_pods(cluster: &Cluster, leader: Side, standby: Side) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let mut log = cluster.audit_log();
    load::create_namespace(&api).await?;
    let mut first = start(cluster, "leader", &leader.program()?, &SETS_OF_PODS)?;
    let old_holder = until_held(&api, None, Duration::from_secs(60)).await?;
    let mut second = start(cluster, "standby", &standby.program()?, &SETS_OF_PODS)?;
    until_standing_by(cluster, &mut log).await?;

    let (pods, sets) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    let load = (0..SETS)
        .map(|i| Request::create(&sets, load::workload("ReplicaSet", &format!("rs-{i}"), PODS_EACH)));
    load::send_all(&api, load).await?;
    until("a third of the pods", Duration::from_secs(300), || async {
        let seen = count(&api, &pods).await?;
        Ok((seen < SETS * PODS_EACH / 3).then(|| format!("{seen} pods")))
    })
    .await?;
    let killed = Timestamp::now();
    first.kill();

    let new_holder = until_held(&api, Some(&old_holder), TAKEN_OVER_WITHIN).await?;
    let lease = api.get(LEASE).await?;
    let acquired: Timestamp =
        lease["spec"]["acquireTime"].as_str().context("the lease has no acquireTime")?.parse()?;
    until("all pods", Duration::from_secs(300), || async {
        let seen = count(&api, &pods).await?;
        Ok((seen < SETS * PODS_EACH).then(|| format!("{seen} pods")))
    })
    .await?;
    until("all statuses", Duration::from_secs(120), || async {
        let is_behind = |set: &serde_json::Value| set["status"]["replicas"].as_u64() != Some(PODS_EACH);
        let behind = load::count_if(&api, &sets, is_behind).await?;
        Ok((behind > 0).then(|| format!("{behind} ReplicaSets behind")))
    })
    .await?;
    // Nothing more may happen: a duplicate would be deleted now.
    tokio::time::sleep(Duration::from_secs(5)).await;

    anyhow::ensure!(second.ended().is_none(), "the standby ended");
    anyhow::ensure!(count(&api, &pods).await? == SETS * PODS_EACH, "{} pods", count(&api, &pods).await?);
    let entries = log.read()?;
    let pods_made = successes(&entries, "create", "pods");
    let pods_deleted = successes(&entries, "delete", "pods");
    // Some requests of the dying leader were carried out but never answered.
    anyhow::ensure!(pods_made as u64 <= SETS * PODS_EACH, "{pods_made} pods were created");
    anyhow::ensure!(pods_deleted == 0, "{pods_deleted} pods were deleted");
    let mut owned: BTreeMap<String, u64> = BTreeMap::new();
    for pod in load::list(&api, &pods).await? {
        let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().to_owned();
        *owned.entry(owner).or_default() += 1;
    }
    owned.retain(|_, pods| *pods != PODS_EACH);
    anyhow::ensure!(owned.is_empty(), "ReplicaSets without their {PODS_EACH} pods: {owned:?}");
    let forbidden: Vec<&Entry> =
        entries.iter().filter(|e| e.by_manager() && e.code == 403 && e.resource != "events").collect();
    anyhow::ensure!(forbidden.is_empty(), "forbidden: {forbidden:?}");

    let first_write = entries
        .iter()
        .filter(|e| e.by_manager() && e.is_write() && e.resource == "pods")
        .filter_map(|e| e.received)
        .find(|received| *received > acquired)
        .context("the standby wrote nothing")?;
    let delay = first_write.duration_since(acquired).as_secs_f64();
    let without = acquired.duration_since(killed).as_secs_f64();
    println!(
        "{new_holder} held the lease {without:.1} s after the kill and wrote {:.0} ms later",
        delay * 1000.0
    );
    anyhow::ensure!(
        standby != Side::Ours || delay < 1.0,
        "the first write came {delay:.2} s after the lease"
    );
    second.stop(Duration::from_secs(20)).await?;
    Ok(())
}

fn start(cluster: &Cluster, name: &str, program: &Path, play: &Play) -> anyhow::Result<Process> {
    let controllers = [play.controller.to_owned()];
    let flags: Vec<String> = play.flags.iter().map(|flag| (*flag).to_owned()).collect();
    cluster.start_manager(
        name,
        &Manager { binary: program, controllers: &controllers, leader_elect: true, flags: &flags },
    )
}

/// Waits until another process holds the lease.
async fn until_held(api: &Api, before: Option<&str>, limit: Duration) -> anyhow::Result<String> {
    let holder = || async {
        let lease = match api.get(LEASE).await {
            Ok(lease) => lease,
            Err(e) if e.code() == Some(404) => return Ok(None),
            Err(e) => return Err(e),
        };
        let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        Ok(holder.filter(|holder| Some(*holder) != before).map(str::to_owned))
    };
    until("a holder of the lease", limit, || async {
        let held = holder().await?;
        Ok(held.is_none().then(|| "no new holder".to_owned()))
    })
    .await?;
    holder().await?.context("the lease was lost again")
}

/// A standby is recognized by its requests for the lease; ours also fills its caches meanwhile.
async fn until_standing_by(cluster: &Cluster, log: &mut flyball_sim::audit::AuditLog) -> anyhow::Result<()> {
    log.read()?;
    let start = tokio::time::Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(500)).await;
        if log.read()?.iter().any(|e| e.verb == "watch" && e.by_manager()) {
            break;
        }
    }
    anyhow::ensure!(cluster.apiserver_usage().is_some(), "the API server ended");
    Ok(())
}

fn successes(entries: &[Entry], verb: &str, resource: &str) -> usize {
    let fits = |e: &&Entry| {
        e.is_write() && e.by_manager() && e.verb == verb && e.resource == resource && e.subresource.is_empty()
    };
    entries.iter().filter(fits).filter(|e| e.code < 300).count()
}
