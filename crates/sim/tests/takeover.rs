//! Takeover: upstream's controller manager builds a busy cluster, ours takes it over, and hands it back. Neither may
//! touch anything: no pod, no ReplicaSet, no ControllerRevision, no status, silence.
//! Skipped without assets. Kinds whose controllers are not here yet are left out, and named.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::audit::{AuditLog, Entry};
use flyball_sim::cluster::{Cluster, Manager, Process};
use flyball_sim::load::{self, NAMESPACE, Request, template};
use flyball_sim::nodes::Nodes;
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

/// No write for this long means that a controller manager has nothing more to do.
const QUIET: Duration = Duration::from_secs(5);
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
/// A new controller manager must stay silent for this long; its caches are filled well before.
const SILENT_FOR: Duration = Duration::from_secs(15);

/// Something in the busy cluster: which controller looks after it, how it begins, and what changes later.
struct Part {
    controller: &'static str,
    collection: String,
    manifest: Value,
    change: Option<Value>,
}

fn part(controller: &'static str, group_version: &str, resource: &str, manifest: Value) -> Part {
    Part { controller, collection: load::path(group_version, resource), manifest, change: None }
}

impl Part {
    fn then(mut self, change: Value) -> Self {
        self.change = Some(change);
        self
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection, self.manifest["metadata"]["name"].as_str().unwrap_or_default())
    }
}

/// Every workload kind, with a second revision where it has revisions, and what looks at their pods.
fn busy_cluster() -> Vec<Part> {
    let new_image =
        || json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "main:2"}]}}}});
    let stateful = |name: &str| {
        let mut set = load::workload("StatefulSet", name, 3);
        set["spec"]["serviceName"] = name.into();
        set
    };
    let mut daemon = load::workload("DaemonSet", "agent", 0);
    if let Some(spec) = daemon["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    let job = |image: &str| {
        let mut template = template("batch", image);
        template["spec"]["restartPolicy"] = "Never".into();
        json!({"completions": 3, "parallelism": 2, "template": template})
    };
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    vec![
        part("deployment-controller", "apps/v1", "deployments", load::workload("Deployment", "web", 5))
            .then(new_image()),
        part("replicaset-controller", "apps/v1", "replicasets", load::workload("ReplicaSet", "plain", 4))
            .then(json!({"spec": {"replicas": 3}})),
        part(
            "replicationcontroller-controller",
            "v1",
            "replicationcontrollers",
            json!({
                "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"},
                "spec": {"replicas": 2, "selector": {"app": "old"}, "template": template("old", "main")},
            }),
        ),
        part("statefulset-controller", "apps/v1", "statefulsets", stateful("db")).then(new_image()),
        part("daemonset-controller", "apps/v1", "daemonsets", daemon).then(new_image()),
        part(
            "job-controller",
            "batch/v1",
            "jobs",
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "done"}, "spec": job("exit-0"),
            }),
        ),
        part(
            "job-controller",
            "batch/v1",
            "jobs",
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "running"}, "spec": job("main"),
            }),
        ),
        part(
            "cronjob-controller",
            "batch/v1",
            "cronjobs",
            json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "yearly"},
                "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job("exit-0")}},
            }),
        ),
        part("endpointslice-controller", "v1", "services", service.clone()),
        part("endpoints-controller", "v1", "services", {
            let mut headless = service;
            headless["metadata"]["name"] = "headless".into();
            headless["spec"]["clusterIP"] = "None".into();
            headless
        }),
        part(
            "resourcequota-controller",
            "v1",
            "resourcequotas",
            json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"},
                "spec": {"hard": {"pods": "100", "services": "10"}},
            }),
        ),
        part(
            "disruption-controller",
            "policy/v1",
            "poddisruptionbudgets",
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "plain"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "plain"}}},
            }),
        ),
    ]
}

/// Controllers without a part of their own that a real cluster has beside these.
const COMPANIONS: [&str; 4] = [
    "serviceaccount-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
];

#[tokio::test]
async fn nothing_moves_when_the_controller_manager_changes() -> anyhow::Result<()> {
    let test = "nothing_moves_when_the_controller_manager_changes";
    let (here, missing): (Vec<Part>, Vec<Part>) =
        busy_cluster().into_iter().partition(|part| ours::lacks(&[part.controller]).is_none());
    for part in &missing {
        println!("left out of {test}: {} (no {})", part.path(), part.controller);
    }
    if here.is_empty() {
        ours::lacks(&["replicaset-controller"]).iter().for_each(|skip| skip.announce(test));
        return Ok(());
    }
    Cluster::play(test, async |cluster| match cluster.assets().upstream_manager() {
        Ok(upstream) => play(cluster, &upstream, &here).await,
        Err(skip) => {
            skip.announce(test);
            Ok(())
        }
    })
    .await
}

async fn play(cluster: &Cluster, upstream: &Path, parts: &[Part]) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let mut log = cluster.audit_log();
    let mut controllers: Vec<String> = parts.iter().map(|part| part.controller.to_owned()).collect();
    controllers.extend(COMPANIONS.iter().filter(|c| ours::lacks(&[**c]).is_none()).map(|c| (*c).to_owned()));
    controllers.sort();
    controllers.dedup();
    let start = |name: &str, program: &Path| -> anyhow::Result<Process> {
        let manager = Manager { binary: program, controllers: &controllers, leader_elect: true, flags: &[] };
        cluster.start_manager(name, &manager)
    };

    let mut process = start("upstream-1", upstream)?;
    load::create_namespace(&api).await?;
    load::send_all(&api, ["node-1", "node-2"].map(|name| Request::create("/api/v1/nodes", node(name))))
        .await?;
    for name in ["node-1", "node-2"] {
        // Admission taints new nodes; the node lifecycle controller, which would undo it, is not part of this.
        let path = format!("/api/v1/nodes/{name}");
        load::send_all(&api, [Request::merge(path, json!({"spec": {"taints": null}}))]).await?;
    }
    let _nodes = Nodes::start(cluster.door().clone(), api.clone(), NAMESPACE);
    load::send_all(&api, parts.iter().map(|part| Request::create(&part.collection, part.manifest.clone())))
        .await?;
    settle(&mut log, &mut process).await?;
    let changes = parts.iter().filter_map(|part| Some(Request::merge(part.path(), part.change.clone()?)));
    load::send_all(&api, changes).await?;
    settle(&mut log, &mut process).await?;
    let built = state(&api).await?;
    ensure!(built.keys().any(|key| key.starts_with("pods/")), "upstream made no pods");
    process.stop(Duration::from_secs(20)).await?;

    let program = ours::binary(Profile::Debug)?;
    log.read()?;
    let mut process = start("ours", &program)?;
    untouched("ours took over", &api, &mut log, &mut process, &built).await?;
    process.stop(Duration::from_secs(20)).await?;

    let mut process = start("upstream-2", upstream)?;
    untouched("upstream took over again", &api, &mut log, &mut process, &built).await?;
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
}

/// Waits until the controller manager has come to rest.
async fn settle(log: &mut AuditLog, process: &mut Process) -> anyhow::Result<()> {
    let (start, mut last) = (Instant::now(), Instant::now());
    while last.elapsed() < QUIET {
        ensure!(process.ended().is_none(), "{} ended", process.name());
        ensure!(start.elapsed() < SETTLED_WITHIN, "{} does not come to rest", process.name());
        tokio::time::sleep(Duration::from_millis(200)).await;
        if log.read()?.iter().any(is_change) {
            last = Instant::now();
        }
    }
    Ok(())
}

/// Writes that change the cluster: not leases, not events, not questions to the server, not lost races.
fn is_change(entry: &Entry) -> bool {
    let aside = matches!(
        entry.resource.as_str(),
        "leases" | "events" | "tokenreviews" | "subjectaccessreviews" | "selfsubjectaccessreviews"
    );
    entry.by_manager() && entry.is_write() && !aside && entry.subresource != "token" && entry.code < 400
        // An account for a controller that acts for the first time.
        && !(entry.resource == "serviceaccounts" && entry.namespace == "kube-system")
}

/// Every object of the namespace with its uid, version and status.
async fn state(api: &Api) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut state = BTreeMap::new();
    for resource in api.preferred() {
        if !resource.namespaced
            || !resource.allows("list")
            || matches!(resource.name.as_str(), "events" | "leases")
        {
            continue;
        }
        for object in api.list(&resource, Some(NAMESPACE), None).await? {
            let meta = &object["metadata"];
            let key = format!("{}/{}", resource.name, meta["name"].as_str().unwrap_or_default());
            let shown = json!({
                "uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "status": object["status"],
            });
            state.insert(key, shown);
        }
    }
    Ok(state)
}

async fn untouched(
    what: &str,
    api: &Api,
    log: &mut AuditLog,
    process: &mut Process,
    before: &BTreeMap<String, Value>,
) -> anyhow::Result<()> {
    let (start, since) = (Instant::now(), Timestamp::now());
    let (mut watching, mut changes) = (None, Vec::new());
    // The lease of the one before has to run out first.
    while watching.is_none_or(|since: Instant| since.elapsed() < SILENT_FOR) {
        ensure!(start.elapsed() < Duration::from_secs(120), "{what}, but opened no watch");
        ensure!(process.ended().is_none(), "{what}, but ended");
        tokio::time::sleep(Duration::from_millis(200)).await;
        for entry in log.read()? {
            if entry.verb == "watch" && entry.by_manager() && entry.resource == "pods" {
                watching = watching.or(Some(Instant::now()));
            }
            if is_change(&entry) {
                changes.push(entry);
            }
        }
        // A warm standby watches before it leads: silence only counts from the lease on.
        if watching.is_some() && !is_led(api, since).await? {
            watching = watching.map(|_| Instant::now());
        }
    }
    ensure!(changes.is_empty(), "{what} and wrote: {changes:#?}");
    let after = state(api).await?;
    for (key, was) in before {
        let is = after.get(key);
        ensure!(is == Some(was), "{what}: {key} was {was}, is {}", is.unwrap_or(&Value::Null));
    }
    let new: Vec<&String> = after.keys().filter(|key| !before.contains_key(*key)).collect();
    ensure!(new.is_empty(), "{what}: new are {new:?}");
    Ok(())
}

/// Whether somebody has got the lease since then.
async fn is_led(api: &Api, since: Timestamp) -> anyhow::Result<bool> {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    let lease = api.get(path).await?;
    let acquired = lease["spec"]["acquireTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    Ok(acquired.is_some_and(|acquired| acquired > since))
}
