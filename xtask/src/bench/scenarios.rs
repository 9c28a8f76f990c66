//! The loads that the contenders are put under.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use flyball_sim::api::Api;
use flyball_sim::load::{self, Request, count, count_if, until};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::hearts;
use super::measure::Bench;

const PATIENCE: Duration = Duration::from_secs(900);
const IDLE: Duration = Duration::from_secs(30);
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Idle,
    ReplicaSets,
    Cascade,
    Rollout,
    Jobs,
    Failover,
    Services,
    Nodes,
}

impl Scenario {
    pub(crate) const ALL: [Self; 8] = [
        Self::Idle,
        Self::ReplicaSets,
        Self::Cascade,
        Self::Rollout,
        Self::Jobs,
        Self::Failover,
        Self::Services,
        Self::Nodes,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::ReplicaSets => "replicasets",
            Self::Cascade => "cascade",
            Self::Rollout => "rollout",
            Self::Jobs => "jobs",
            Self::Failover => "failover",
            Self::Services => "services",
            Self::Nodes => "nodes",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Idle => "an empty cluster for 30 seconds",
            Self::ReplicaSets => "100 ReplicaSets of 50 pods, up and down",
            Self::Cascade => "10 Deployments of 500 pods up, then deleted with everything below them",
            Self::Rollout => "20 Deployments of 50 pods roll to a new template, with simulated kubelets",
            Self::Jobs => "2,000 Jobs to completion, with simulated kubelets",
            Self::Failover => "cold start and failover with 15,000 pods there",
            Self::Services => "2,000 Services of 10 endpoints while pods become unready and ready again",
            Self::Nodes => {
                "1,000 nodes renew their leases for a minute, then 100 of them stop and lose their pods"
            }
        }
    }

    /// Further flags of both contenders.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            // The default rate (one node in ten seconds) would be all that is measured.
            Self::Nodes => &["--node-eviction-rate=100"],
            _ => &[],
        }
    }

    pub(crate) async fn play(self, bench: &mut Bench<'_>) -> anyhow::Result<()> {
        match self {
            Self::Idle => idle(bench).await,
            Self::ReplicaSets => replica_sets(bench).await,
            Self::Cascade => cascade(bench).await,
            Self::Rollout => rollout(bench).await,
            Self::Jobs => jobs(bench).await,
            Self::Failover => failover(bench).await,
            Self::Services => services(bench).await,
            Self::Nodes => super::nodes::play(bench).await,
        }
    }
}

async fn idle(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    bench.start_manager().await?;
    bench
        .measure("idle", async {
            tokio::time::sleep(IDLE).await;
            Ok(())
        })
        .await
}

async fn replica_sets(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    const SETS: u64 = 100;
    const EACH: u64 = 50;
    bench.start_manager().await?;
    let api = Arc::clone(&bench.api);
    let sets = load::path("apps/v1", "replicasets");
    let load =
        (0..SETS).map(|i| Request::create(&sets, load::workload("ReplicaSet", &format!("rs-{i}"), EACH)));
    bench
        .measure("up", async {
            load::send_all(&api, load).await?;
            pods_are(&api, SETS * EACH).await?;
            statuses_are(&api, &sets, "replicas", EACH).await
        })
        .await?;
    let scale = (0..SETS).map(|i| Request::merge(format!("{sets}/rs-{i}"), json!({"spec": {"replicas": 0}})));
    bench
        .measure("down", async {
            load::send_all(&api, scale).await?;
            pods_are(&api, 0).await?;
            statuses_are(&api, &sets, "replicas", 0).await
        })
        .await
}

async fn cascade(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    const DEPLOYMENTS: u64 = 10;
    const EACH: u64 = 500;
    bench.start_manager().await?;
    let api = Arc::clone(&bench.api);
    let deployments = load::path("apps/v1", "deployments");
    let load = (0..DEPLOYMENTS)
        .map(|i| Request::create(&deployments, load::workload("Deployment", &format!("d-{i}"), EACH)));
    bench
        .measure("up", async {
            load::send_all(&api, load).await?;
            pods_are(&api, DEPLOYMENTS * EACH).await?;
            statuses_are(&api, &deployments, "replicas", EACH).await
        })
        .await?;
    let options = || json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    let delete = (0..DEPLOYMENTS).map(|i| Request::delete(format!("{deployments}/d-{i}"), options()));
    bench
        .measure("delete", async {
            load::send_all(&api, delete).await?;
            pods_are(&api, 0).await?;
            count_is(&api, &load::path("apps/v1", "replicasets"), 0).await
        })
        .await
}

async fn rollout(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    const DEPLOYMENTS: u64 = 20;
    const EACH: u64 = 50;
    let _nodes = bench.nodes().await?;
    bench.start_manager().await?;
    let api = Arc::clone(&bench.api);
    let deployments = load::path("apps/v1", "deployments");
    let load = (0..DEPLOYMENTS)
        .map(|i| Request::create(&deployments, load::workload("Deployment", &format!("d-{i}"), EACH)));
    bench
        .measure("up", async {
            load::send_all(&api, load).await?;
            statuses_are(&api, &deployments, "availableReplicas", EACH).await
        })
        .await?;
    let template = |i: u64| json!({"spec": {"template": load::template(&format!("d-{i}"), "main:2")}});
    let update = (0..DEPLOYMENTS).map(|i| Request::merge(format!("{deployments}/d-{i}"), template(i)));
    bench
        .measure("roll", async {
            load::send_all(&api, update).await?;
            let rolled = |d: &Value| {
                let status = &d["status"];
                let all = |field: &str| status[field].as_u64() == Some(EACH);
                status["observedGeneration"] == d["metadata"]["generation"]
                    && all("updatedReplicas")
                    && all("availableReplicas")
                    && all("replicas")
            };
            all_are(&api, &deployments, rolled).await?;
            pods_are(&api, DEPLOYMENTS * EACH).await
        })
        .await
}

async fn jobs(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    const JOBS: u64 = 2000;
    let _nodes = bench.nodes().await?;
    bench.start_manager().await?;
    let api = Arc::clone(&bench.api);
    let jobs = load::path("batch/v1", "jobs");
    let job = |i: u64| {
        let mut template = load::template("batch", "exit-0");
        template["spec"]["restartPolicy"] = "Never".into();
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("job-{i}")},
            "spec": {"template": template},
        })
    };
    let load = (0..JOBS).map(|i| Request::create(&jobs, job(i)));
    let is_complete = |job: &Value| {
        let mut conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|c| c["type"] == "Complete" && c["status"] == "True")
    };
    bench
        .measure("complete", async {
            load::send_all(&api, load).await?;
            all_are(&api, &jobs, is_complete).await
        })
        .await
}

async fn failover(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    const SETS: u64 = 300;
    const EACH: u64 = 50;
    let api = Arc::clone(&bench.api);
    let sets = load::path("apps/v1", "replicasets");
    let load =
        (0..SETS).map(|i| Request::create(&sets, load::workload("ReplicaSet", &format!("rs-{i}"), EACH)));
    load::send_all(&api, load).await?;
    // Created in their final state, so that neither contender has worked for it.
    let made = load::list(&api, &sets).await?;
    let pods = load::path("v1", "pods");
    let owned = made.iter().flat_map(|set| (0..EACH).map(|_| Request::create(&pods, owned_pod(set))));
    load::send_all(&api, owned).await?;
    let status = json!({"status": {"replicas": EACH, "fullyLabeledReplicas": EACH, "observedGeneration": 1}});
    load::send_all(&api, (0..SETS).map(|i| Request::merge(format!("{sets}/rs-{i}/status"), status.clone())))
        .await?;
    count_is(&api, &pods, SETS * EACH).await?;

    let before = bench.mark()?;
    let process = bench.launch("kube-controller-manager", false)?;
    bench.watch_over(process);
    scale_up(&api, &sets, "rs-0", EACH + 1).await?;
    pods_are(&api, SETS * EACH + 1).await?;
    bench.record("cold start", &before).await?;
    bench.stop_manager().await?;

    let mut leader = bench.launch("leader", true)?;
    until("a leader", Duration::from_secs(60), || async {
        let lease = api.get(&format!("{LEASE}?resourceVersion=0")).await;
        Ok(lease.is_err().then(|| "no lease".to_owned()))
    })
    .await?;
    let standby = bench.launch("standby", true)?;
    bench.watch_over(standby);
    tokio::time::sleep(Duration::from_secs(15)).await;
    leader.kill();
    // The holder is dead, so the lease does not change any more.
    bench.lease_ends(lease_end(&api).await?);
    bench
        .measure("failover", async {
            scale_up(&api, &sets, "rs-1", EACH + 1).await?;
            pods_are(&api, SETS * EACH + 2).await
        })
        .await
}

/// When the lease expires, by the clock of this machine, which is also that of its holder.
async fn lease_end(api: &Api) -> anyhow::Result<Timestamp> {
    let lease = api.get(LEASE).await?;
    let renewed: Timestamp =
        lease["spec"]["renewTime"].as_str().context("the lease has no renewTime")?.parse()?;
    let seconds = lease["spec"]["leaseDurationSeconds"].as_i64().context("the lease has no duration")?;
    Ok(renewed.checked_add(jiff::SignedDuration::from_secs(seconds))?)
}

fn owned_pod(set: &Value) -> Value {
    let mut pod = set["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    pod["metadata"]["generateName"] = format!("{name}-").into();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    pod
}

async fn services(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    const GROUPS: u64 = 200;
    const PODS_EACH: u64 = 10;
    const SERVICES_EACH: u64 = 10;
    let api = Arc::clone(&bench.api);
    let node = 1;
    let _hearts = hearts::join(&api, node..node + 1).await?;
    let (pods, services) = (load::path("v1", "pods"), load::path("v1", "services"));
    let members = (0..GROUPS).flat_map(|g| (0..PODS_EACH).map(move |p| (g, p)));
    let made = members.clone().map(|(g, p)| {
        let mut pod = load::template(&format!("g-{g}"), "main");
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = format!("p-{g}-{p}").into();
        pod["spec"]["nodeName"] = hearts::name(node).into();
        Request::create(&pods, pod)
    });
    load::send_all(&api, made).await?;
    let ready = |g: u64, p: u64, ready: bool| {
        Request::merge(format!("{pods}/p-{g}-{p}/status"), pod_status(g, p, ready))
    };
    load::send_all(&api, members.map(|(g, p)| ready(g, p, true))).await?;
    bench.start_manager().await?;
    let made = (0..GROUPS).flat_map(|g| (0..SERVICES_EACH).map(move |s| (g, s))).map(|(g, s)| {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s-{g}-{s}")},
            "spec": {"selector": {"app": format!("g-{g}")}, "ports": [{"port": 80}], "clusterIP": "None"},
        });
        Request::create(&services, service)
    });
    let slices = load::path("discovery.k8s.io/v1", "endpointslices");
    let slices_show = |ready: usize| {
        let (api, slices) = (Arc::clone(&api), slices.clone());
        async move {
            count_is(&api, &slices, GROUPS * SERVICES_EACH).await?;
            let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
            let shows = move |slice: &Value| {
                slice["endpoints"].as_array().is_some_and(|all| all.iter().filter(is_ready).count() == ready)
            };
            all_are(&api, &slices, shows).await
        }
    };
    bench
        .measure("appear", async {
            load::send_all(&api, made).await?;
            slices_show(PODS_EACH as usize).await
        })
        .await?;
    bench
        .measure("churn", async {
            for _ in 0..3 {
                load::send_all(&api, (0..GROUPS).map(|g| ready(g, 0, false))).await?;
                slices_show(PODS_EACH as usize - 1).await?;
                load::send_all(&api, (0..GROUPS).map(|g| ready(g, 0, true))).await?;
                slices_show(PODS_EACH as usize).await?;
            }
            Ok(())
        })
        .await
}

fn pod_status(group: u64, pod: u64, ready: bool) -> Value {
    let ip = format!("10.{}.{}.{}", 100 + group / 100, group % 100, pod + 1);
    let ready = if ready { "True" } else { "False" };
    json!({"status": {
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": ready}],
    }})
}

async fn scale_up(api: &Api, sets: &str, name: &str, replicas: u64) -> anyhow::Result<()> {
    let body = json!({"spec": {"replicas": replicas}});
    load::send_all(api, [Request::merge(format!("{sets}/{name}"), body)]).await.context("scale up")
}

async fn pods_are(api: &Api, wanted: u64) -> anyhow::Result<()> {
    count_is(api, &load::path("v1", "pods"), wanted).await
}

async fn count_is(api: &Api, collection: &str, wanted: u64) -> anyhow::Result<()> {
    let look = || async {
        let seen = count(api, collection).await?;
        Ok((seen != wanted).then(|| seen.to_string()))
    };
    until(&format!("{wanted} objects at {collection}"), PATIENCE, look).await.map(drop)
}

/// Every object has observed its present generation and shows `value` in its status; an absent number is zero.
async fn statuses_are(api: &Api, collection: &str, field: &str, value: u64) -> anyhow::Result<()> {
    let shows = |object: &Value| {
        object["status"][field].as_u64().unwrap_or_default() == value
            && object["status"]["observedGeneration"] == object["metadata"]["generation"]
    };
    all_are(api, collection, shows).await
}

pub(super) async fn all_are(
    api: &Api,
    collection: &str,
    fits: impl Fn(&Value) -> bool + Copy,
) -> anyhow::Result<()> {
    let look = || async {
        let behind = count_if(api, collection, |object| !fits(object)).await?;
        Ok((behind > 0).then(|| format!("{behind} are not there yet")))
    };
    until(&format!("all objects at {collection}"), PATIENCE, look).await.map(drop)
}
