//! Takeover of workloads: no pod, ReplicaSet, ControllerRevision or status is changed. Kinds whose controllers are missing are
//! skipped, and named.

use std::path::Path;

use anyhow::ensure;
use flyball_sim::cluster::Cluster;
use flyball_sim::load::{self, NAMESPACE, Request, template};
use flyball_sim::nodes::Nodes;
use flyball_sim::ours;
use serde_json::{Value, json};

use crate::{COMPANIONS, Relay, settle, state};

/// An object of the cluster: its controller, its first state, and its later change.
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

/// Every workload kind, with a second revision where it has revisions, and the objects that select their pods.
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
    let mut controllers: Vec<&str> = parts.iter().map(|part| part.controller).collect();
    controllers.extend(COMPANIONS.iter().filter(|c| ours::lacks(&[**c]).is_none()));
    let mut relay = Relay::start(cluster, upstream, &controllers, &[])?;
    load::create_namespace(&api).await?;
    load::send_all(&api, ["node-1", "node-2"].map(|name| Request::create("/api/v1/nodes", node(name))))
        .await?;
    for name in ["node-1", "node-2"] {
        // Admission taints new nodes; the node lifecycle controller, which would remove the taints, does not run here.
        let path = format!("/api/v1/nodes/{name}");
        load::send_all(&api, [Request::merge(path, json!({"spec": {"taints": null}}))]).await?;
    }
    let _nodes = Nodes::start(cluster.client().clone(), api.clone(), NAMESPACE);
    load::send_all(&api, parts.iter().map(|part| Request::create(&part.collection, part.manifest.clone())))
        .await?;
    settle(&mut relay.log, &mut relay.process).await?;
    let changes = parts.iter().filter_map(|part| Some(Request::merge(part.path(), part.change.clone()?)));
    load::send_all(&api, changes).await?;
    settle(&mut relay.log, &mut relay.process).await?;
    let built = state(&api, &[]).await?;
    ensure!(built.keys().any(|key| key.starts_with("pods/")), "upstream made no pods");
    relay.hand_over(&api, &[], &built).await
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
}
