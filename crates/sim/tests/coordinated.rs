//! Coordinated leader election beside upstream's controller manager: a real API server chooses the leader. Skipped without assets.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::cluster::{Cluster, Manager, Options, Unavailable};
use flyball_sim::load::until;
use flyball_sim::ours::{self, Profile};
use serde_json::{Value, json};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const CANDIDATES: &str = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates";
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn the_server_passes_the_lease_from_one_to_the_other_and_back() -> anyhow::Result<()> {
    let test = "the_server_passes_the_lease_from_one_to_the_other_and_back";
    let features = json!({
        "featureGates": {"CoordinatedLeaderElection": true},
        "runtimeConfig": {"coordination.k8s.io/v1beta1": true},
    });
    let options = Options { features: serde_json::from_value(features)?, ..Options::default() };
    let mut cluster = match Cluster::real(options).await {
        Ok(cluster) => cluster,
        Err(Unavailable::Skip(skip)) => {
            skip.announce(test);
            return Ok(());
        }
        Err(broken) => return Err(broken.into()),
    };
    let upstreams = match cluster.assets().upstream_manager() {
        Ok(program) => program,
        Err(skip) => {
            skip.announce(test);
            return Ok(());
        }
    };
    let passed = pass_on(&mut cluster, &upstreams, &ours::binary(Profile::Debug)?).await;
    passed.inspect_err(|_| cluster.keep_logs())
}

async fn pass_on(cluster: &mut Cluster, upstreams: &Path, ours: &Path) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let start = |name: &str, binary: &Path, version: &str| {
        let controllers = ["deployment-controller".to_owned()];
        let flags = [
            "--feature-gates=CoordinatedLeaderElection=true".to_owned(),
            format!("--emulated-version={version}"),
            "--leader-elect-lease-duration=6s".to_owned(),
            "--leader-elect-renew-deadline=4s".to_owned(),
            "--leader-elect-retry-period=1s".to_owned(),
        ];
        let manager = Manager { binary, controllers: &controllers, leader_elect: true, flags: &flags };
        cluster.start_manager(name, &manager)
    };
    let mut first = start("upstream", upstreams, "1.36")?;
    let upstream = led_by_another_than(&api, "").await?;
    let mut second = start("ours", ours, "1.36")?;
    until("two candidates", PATIENCE, || async {
        let names = candidates(&api).await?;
        Ok((names.len() != 2).then(|| format!("{names:?}")))
    })
    .await?;
    first.kill();
    let ours = led_by_another_than(&api, &upstream).await?;
    // What the server has set is kept when the lease is renewed.
    let before = api.get(LEASE).await?;
    until("a renewal", PATIENCE, || async {
        let now = api.get(LEASE).await?;
        Ok((now["spec"]["renewTime"] == before["spec"]["renewTime"]).then(|| now.to_string()))
    })
    .await?;
    let renewed = api.get(LEASE).await?;
    ensure!(renewed["spec"]["strategy"] == "OldestEmulationVersion", "{renewed}");
    ensure!(renewed["spec"]["holderIdentity"] == ours, "{renewed}");
    let candidate = api.get(&format!("{CANDIDATES}/{ours}")).await?;
    ensure!(
        candidate["spec"]["binaryVersion"] == "1.36.4" && candidate["spec"]["emulationVersion"] == "1.36.0",
        "{candidate}"
    );
    // An older emulated version is preferred: the server names its process, and ours stops renewing.
    let mut third = start("older", upstreams, "1.35")?;
    led_by_another_than(&api, &ours).await?;
    let ended = async {
        while second.ended().is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    ensure!(tokio::time::timeout(PATIENCE, ended).await.is_ok(), "ours goes on without the lease");
    third.kill();
    Ok(())
}

/// The holder of the lease, once it is another.
async fn led_by_another_than(api: &Api, former: &str) -> anyhow::Result<String> {
    let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    until("another leader", PATIENCE, || async {
        // There is no lease at first.
        let lease = api.get(LEASE).await.unwrap_or_default();
        let now = holder(&lease);
        Ok((now.is_empty() || now == former).then(|| lease.to_string()))
    })
    .await?;
    Ok(holder(&api.get(LEASE).await?))
}

async fn candidates(api: &Api) -> Result<Vec<String>, flyball_sim::api::Error> {
    let list = api.get(CANDIDATES).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let of_lease =
        items.iter().filter(|candidate| candidate["spec"]["leaseName"] == "kube-controller-manager");
    Ok(of_lease.map(|candidate| candidate["metadata"]["name"].to_string()).collect())
}
