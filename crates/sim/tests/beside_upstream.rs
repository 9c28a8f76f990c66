//! `/configz`, the CA without `--root-ca-file` and leader migration beside upstream's controller manager, on a real API server.
//! Skipped without assets.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use flyball_sim::api::Api;
use flyball_sim::client::{self, Tls};
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::load::{self, Request, until};
use flyball_sim::ours::{self, Profile};
use serde_json::{Value, json};

/// Flags beside those of the rig, one set for each row.
#[rustfmt::skip]
const FLAGS: [(&str, &str); 7] = [
    ("defaults",    ""),
    ("controllers", "--controllers=deployment,-job,nodeipam --concurrent-deployment-syncs=7 --concurrent-gc-syncs=3 --concurrent-cron-job-syncs=2"),
    ("nodes",       "--allocate-node-cidrs --cluster-cidr=10.244.0.0/16,fd00::/56 --service-cluster-ip-range=10.0.0.0/24,fd01::/112 \
                     --node-cidr-mask-size-ipv4=25 --node-cidr-mask-size-ipv6=66 --node-monitor-grace-period=1m30s --node-eviction-rate=0.25 \
                     --large-cluster-size-threshold=10 --unhealthy-zone-threshold=0.7 --secondary-node-eviction-rate=0.02"),
    ("autoscaling", "--horizontal-pod-autoscaler-tolerance=0.25 --horizontal-pod-autoscaler-sync-period=20s \
                     --horizontal-pod-autoscaler-downscale-stabilization=1m --horizontal-pod-autoscaler-cpu-initialization-period=10s \
                     --horizontal-pod-autoscaler-initial-readiness-delay=1m --concurrent-horizontal-pod-autoscaler-syncs=9"),
    ("volumes",     "--disable-attach-detach-reconcile-sync --attach-detach-reconcile-sync-period=2m --pvclaimbinder-sync-period=20s \
                     --enable-hostpath-provisioner --pv-recycler-minimum-timeout-nfs=200 --pv-recycler-increment-timeout-nfs=10 --disable-force-detach-on-timeout"),
    ("process",     "--kube-api-qps=7.5 --kube-api-burst=11 --kube-api-content-type=application/json --min-resync-period=1h --profiling=false \
                     --contention-profiling --controller-start-interval=50ms --leader-elect-lease-duration=20s --leader-elect-renew-deadline=12s \
                     --leader-elect-retry-period=3s --leader-elect-resource-name=other --leader-elect-resource-namespace=default"),
    ("lifetimes",   "--terminated-pod-gc-threshold=3 --namespace-sync-period=30s --resource-quota-sync-period=45s --cluster-signing-duration=48h \
                     --legacy-service-account-token-clean-up-period=24h --mirroring-max-endpoints-per-subset=20 --max-endpoints-per-slice=50 \
                     --endpoint-updates-batch-period=1s --endpointslice-updates-batch-period=2s --enable-garbage-collector=false"),
];

#[tokio::test]
async fn configz_shows_what_upstreams_shows() -> anyhow::Result<()> {
    let test = "configz_shows_what_upstreams_shows";
    Cluster::play(test, async |cluster| {
        let Some(upstreams) = upstream(cluster, test)? else { return Ok(()) };
        let ours = ours::binary(Profile::Debug)?;
        let mut differences = vec![];
        for (case, flags) in FLAGS {
            let flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
            let name = format!("{case}-upstream");
            let (theirs, ours) = tokio::try_join!(
                configz(cluster, &name, &upstreams, &flags),
                configz(cluster, case, &ours, &flags),
            )?;
            compare(&theirs, &ours, case, &mut differences);
        }
        ensure!(differences.is_empty(), "{}", differences.join("\n"));
        Ok(())
    })
    .await
}

/// What a controller manager with these flags shows, as soon as it serves.
async fn configz(cluster: &Cluster, name: &str, program: &Path, flags: &[String]) -> anyhow::Result<Value> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let certificates = cluster.dir().join(format!("serving-{name}"));
    let mut flags = flags.to_vec();
    flags.extend([format!("--secure-port={port}"), format!("--cert-dir={}", certificates.display())]);
    let manager = Manager { binary: program, controllers: &[], leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager(name, &manager)?;
    let pair = certificates.join("kube-controller-manager.crt");
    let page = async {
        loop {
            if let Some(ended) = process.ended() {
                let log = std::fs::read_to_string(process.log()).unwrap_or_default();
                anyhow::bail!("{name} ended with {ended}: {log}");
            }
            if let Ok(manager) = Tls::new(&format!("https://127.0.0.1:{port}"), &pair, "admin-token")
                && let Ok(page) = client::get(&manager, "/configz").await
                && page.status() == 200
            {
                return Ok(page.into_body());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let page = tokio::time::timeout(Duration::from_secs(60), page).await;
    let page = page.with_context(|| format!("{name} does not serve /configz"))??;
    process.kill();
    Ok(serde_json::from_slice(&page)?)
}

/// Every path at which the two differ.
fn compare(theirs: &Value, ours: &Value, path: &str, differences: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for name in theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name))) {
                let at = format!("{path}.{name}");
                compare(
                    theirs.get(name).unwrap_or(&Value::Null),
                    ours.get(name).unwrap_or(&Value::Null),
                    &at,
                    differences,
                );
            }
        }
        // Upstream makes this list from a map, in random order.
        (Value::Array(theirs), Value::Array(ours)) if path.ends_with(".GCIgnoredResources") => {
            let sorted = |list: &[Value]| list.iter().map(Value::to_string).collect::<BTreeSet<_>>();
            if sorted(theirs) != sorted(ours) {
                differences.push(format!("{path}: upstream {theirs:?}, ours {ours:?}"));
            }
        }
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => differences.push(format!("{path}: upstream {theirs}, ours {ours}")),
    }
}

/// A CA inside the kubeconfig is published byte for byte, and if the kubeconfig names a file, nothing is, so that a change of the
/// manager writes no namespace.
#[tokio::test]
async fn without_root_ca_file_the_published_ca_is_upstreams() -> anyhow::Result<()> {
    let test = "without_root_ca_file_the_published_ca_is_upstreams";
    Cluster::play(test, async |cluster| {
        let Some(upstreams) = upstream(cluster, test)? else { return Ok(()) };
        let ours = ours::binary(Profile::Debug)?;
        let file = cluster.dir().join("kcm.kubeconfig");
        let inline = cluster.dir().join("inline.kubeconfig");
        let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        let server = &mut kubeconfig["clusters"][0]["cluster"];
        let ca = std::fs::read_to_string(server["certificate-authority"].as_str().unwrap_or_default())?;
        let unusual = format!("# the CA\n\n{ca}\n");
        let data = base64::engine::general_purpose::STANDARD.encode(&unusual);
        server["certificate-authority"].take();
        server["certificate-authority-data"] = data.into();
        std::fs::write(&inline, kubeconfig.to_string())?;
        for (case, kubeconfig, want) in [("file", file, ""), ("inline", inline, unusual.as_str())] {
            let flags = ["--root-ca-file=".to_owned(), format!("--kubeconfig={}", kubeconfig.display())];
            publish(cluster, (&upstreams, &ours), case, &flags, want).await?;
        }
        Ok(())
    })
    .await
}

/// Has upstream's manager publish the CA, then ours.
async fn publish(
    cluster: &Cluster,
    (upstreams, ours): (&Path, &Path),
    case: &str,
    flags: &[String],
    want: &str,
) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let published = async |namespace: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        until(&format!("the CA in {namespace}, {case}"), Duration::from_secs(60), || async {
            let found = api.get(&path).await.unwrap_or_default();
            Ok((found["data"]["ca.crt"] != want).then(|| found.to_string()))
        })
        .await?;
        Ok::<Value, anyhow::Error>(api.get(&path).await?)
    };
    let controllers = ["root-ca-certificate-publisher-controller".to_owned()];
    let start = |name: &str, binary: &Path| {
        let manager = Manager { binary, controllers: &controllers, leader_elect: false, flags };
        cluster.start_manager(&format!("{name}-{case}"), &manager)
    };
    let mut incumbent = start("upstream", upstreams)?;
    let before = published("default").await?;
    incumbent.kill();
    let mut successor = start("ours", ours)?;
    // Once a new namespace has it, all others have been synced.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case}});
    load::send_all(&api, [Request::create("/api/v1/namespaces", namespace)]).await?;
    let later = published(case).await?;
    ensure!(later["data"] == before["data"], "{case}: upstream {}, ours {}", before["data"], later["data"]);
    ensure!(published("default").await? == before, "{case}: a ConfigMap was written again");
    successor.stop(Duration::from_secs(20)).await?;
    Ok(())
}

fn upstream(cluster: &Cluster, test: &str) -> anyhow::Result<Option<PathBuf>> {
    match cluster.assets().upstream_manager() {
        Ok(program) => Ok(Some(program)),
        Err(skip) => {
            skip.announce(test);
            Ok(None)
        }
    }
}

const MIGRATION: &str = "\
apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: cloud-provider-extraction-migration
controllerLeaders:
- {name: node-ipam-controller, component: kube-controller-manager}
";

/// Upstream's v1.36 ends as soon as it has both leases: its controllers under the second one want informers under a name that those
/// under the first have. So what it leaves is what there is to take over.
#[tokio::test]
async fn both_leases_of_a_leader_migration_are_taken_over_from_upstreams() -> anyhow::Result<()> {
    let test = "both_leases_of_a_leader_migration_are_taken_over_from_upstreams";
    Cluster::play(test, async |cluster| {
        let Some(upstreams) = upstream(cluster, test)? else { return Ok(()) };
        let (api, ours) = (cluster.api().await?, ours::binary(Profile::Debug)?);
        let file = cluster.dir().join("migration.yaml");
        std::fs::write(&file, MIGRATION)?;
        let flags = [
            "--enable-leader-migration".to_owned(),
            format!("--leader-migration-config={}", file.display()),
            "--allocate-node-cidrs".to_owned(),
            "--cluster-cidr=10.244.0.0/16".to_owned(),
            "--leader-elect-lease-duration=6s".to_owned(),
            "--leader-elect-renew-deadline=4s".to_owned(),
            "--leader-elect-retry-period=1s".to_owned(),
        ];
        let start = |name: &str, binary: &Path| {
            // Upstream takes the second lease only when this controller of tokens has started.
            let controllers = ["serviceaccount-token-controller", "node-ipam-controller"].map(str::to_owned);
            let manager = Manager { binary, controllers: &controllers, leader_elect: true, flags: &flags };
            cluster.start_manager(name, &manager)
        };
        let mut incumbent = start("upstream", &upstreams)?;
        let ended = async {
            while incumbent.ended().is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ended).await.context("upstream's still runs")?;
        let log = std::fs::read_to_string(incumbent.log())?;
        ensure!(log.contains("is already registered"), "{log}");
        let before = holders(&api).await?;
        let mut successor = start("ours", &ours)?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "first"}});
        load::send_all(&api, [Request::create("/api/v1/nodes", node)]).await?;
        until("a range of pod addresses", Duration::from_secs(60), || async {
            let node = api.get("/api/v1/nodes/first").await?;
            Ok(node["spec"]["podCIDR"].is_null().then(|| "there is none".to_owned()))
        })
        .await?;
        let after = holders(&api).await?;
        ensure!(
            before[0] == before[1] && after[0] == after[1] && before[0] != after[0] && !before[0].is_empty(),
            "{before:?} {after:?}"
        );
        successor.stop(Duration::from_secs(20)).await?;
        Ok(())
    })
    .await
}

/// The holders of both leases.
async fn holders(api: &Api) -> anyhow::Result<[String; 2]> {
    let mut holders = [String::new(), String::new()];
    let leases = ["kube-controller-manager", "cloud-provider-extraction-migration"];
    for (holder, lease) in holders.iter_mut().zip(leases) {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{lease}");
        *holder = api.get(&path).await?["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    }
    Ok(holders)
}
