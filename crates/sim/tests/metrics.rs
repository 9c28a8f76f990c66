//! Metrics: after the same work, every metric of upstream's controller manager exists in ours, with the same type, stability,
//! help text, labels and buckets, and so does every work queue. Skipped without assets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_sim::client::{self, Tls};
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::load::{self, NAMESPACE, Request, template, until};
use flyball_sim::nodes::Nodes;
use flyball_sim::ours::{self, Profile};
use serde_json::{Value, json};

/// Metrics of Go, or of upstream's libraries that a controller manager does not use.
const NOT_THE_MANAGERS: [&str; 15] = [
    "go_",
    "aggregator_discovery_",
    "apiextensions_",
    "apiserver_audit_",
    "apiserver_cel_",
    "apiserver_declarative_",
    "apiserver_envelope_",
    "apiserver_kube_aggregator_",
    "apiserver_storage_",
    "apiserver_validation_",
    "apiserver_webhooks_",
    // Go's connection cache and credential plugins.
    "rest_client_transport_",
    "rest_client_exec_plugin_",
    // Go reloads certificates through queues; ours reads a file when it is needed.
    "Dynamic",
    "RequestHeaderAuthRequestController",
];
/// Exist only after a timeout, after an unbound volume, or (in ours) after a client certificate.
const BY_CHANCE: [&str; 5] = [
    "stale_sync_skips_total",
    "rest_client_request_retries_total",
    "leader_election_slowpath_total",
    "pv_collector_unbound_pv_count",
    "apiserver_client_certificate_expiration_seconds",
];

#[tokio::test]
async fn prometheus_sees_what_it_sees_of_upstreams() -> anyhow::Result<()> {
    let test = "prometheus_sees_what_it_sees_of_upstreams";
    let mut pages = Vec::new();
    for upstreams in [true, false] {
        Cluster::play(test, async |cluster| {
            let program = match upstreams {
                true => match cluster.assets().upstream_manager() {
                    Ok(program) => program,
                    Err(skip) => {
                        skip.announce(test);
                        return Ok(());
                    }
                },
                false => ours::binary(Profile::Debug)?,
            };
            pages.push(page(cluster, &program).await?);
            Ok(())
        })
        .await?;
    }
    let [upstreams, ours] = &pages[..] else { return Ok(()) };
    let (upstreams, ours) = (shapes(upstreams), shapes(ours));
    let is_compared = |name: &str| {
        !NOT_THE_MANAGERS.iter().any(|prefix| name.starts_with(prefix))
            && !BY_CHANCE.iter().any(|part| name.contains(part))
    };
    let compared: Vec<_> = upstreams.iter().filter(|(name, _)| is_compared(name)).collect();
    ensure!(compared.len() > 80, "upstream's shows only {}", compared.len());
    let mut differences = Vec::new();
    for (name, theirs) in compared {
        match ours.get(name) {
            None => differences.push(format!("{name} is not shown")),
            Some(shape) if shape != theirs => {
                differences.push(format!("{name}: {shape:?} is not {theirs:?}"))
            }
            Some(_) => {}
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// The shape of a metric family; work queues count as separate families.
#[derive(Debug, Default, PartialEq)]
struct Shape {
    kind: String,
    /// With the stability in front.
    help: String,
    labels: BTreeSet<Vec<String>>,
    bounds: BTreeSet<String>,
}

fn shapes(page: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut queues = BTreeSet::new();
    let mut family = String::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            family = name.to_owned();
            shapes.entry(family.clone()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            shapes.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else {
            let shape = shapes.entry(family.clone()).or_default();
            let labels = labels(line);
            shape
                .bounds
                .extend(labels.iter().filter(|(name, _)| name == "le").map(|(_, bound)| bound.clone()));
            let names = labels.iter().map(|(name, _)| name.clone()).filter(|name| name != "le");
            shape.labels.insert(names.collect());
            if family == "workqueue_depth" {
                queues.extend(labels.into_iter().map(|(_, name)| name));
            }
        }
    }
    shapes.extend(queues.into_iter().map(|queue| (queue, Shape::default())));
    shapes
}

/// Names and values, sorted by name. No value in these pages contains a quote.
fn labels(line: &str) -> Vec<(String, String)> {
    let Some((_, rest)) = line.split_once('{') else { return Vec::new() };
    let mut parts = rest.split('"');
    let mut labels = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        labels.push((name.trim_matches([',', '=']).to_owned(), value.to_owned()));
    }
    labels.sort();
    labels
}

/// The metrics of a controller manager after some work.
async fn page(cluster: &Cluster, program: &Path) -> anyhow::Result<String> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let certificates = cluster.dir().join("serving");
    let flags = [
        format!("--secure-port={port}"),
        format!("--cert-dir={}", certificates.display()),
        "--allocate-node-cidrs".to_owned(),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
    ];
    let controllers = ["*", "bootstrapsigner", "tokencleaner"].map(str::to_owned);
    let manager = Manager { binary: program, controllers: &controllers, leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager("manager", &manager)?;
    work(cluster).await?;

    let pair = certificates.join("kube-controller-manager.crt");
    let manager = Tls::new(&format!("https://127.0.0.1:{port}"), &pair, "admin-token")?;
    // The second request finds the first authorization in the cache.
    client::get(&manager, "/metrics").await?;
    let page = client::get(&manager, "/metrics").await?;
    ensure!(page.status() == 200, "/metrics answers {}", page.status());
    process.stop(Duration::from_secs(20)).await?;
    // Upstream's page has help texts that are not UTF-8.
    Ok(String::from_utf8_lossy(page.body()).into_owned())
}

/// Work for every controller with metrics.
async fn work(cluster: &Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}},
    });
    load::send_all(&api, [Request::create("/api/v1/nodes", node)]).await?;
    let _nodes = Nodes::start(cluster.client().clone(), api.clone(), NAMESPACE);
    let (pods, jobs) = (load::path("v1", "pods"), load::path("batch/v1", "jobs"));
    let autoscalers = load::path("autoscaling/v2", "horizontalpodautoscalers");
    let resource_claims = load::path("resource.k8s.io/v1", "resourceclaims");
    let volume_claims = load::path("v1", "persistentvolumeclaims");
    load::send_all(
        &api,
        objects().into_iter().map(|(collection, object)| Request::create(collection, object)),
    )
    .await?;
    until("finished jobs, synced claims and autoscalers", Duration::from_secs(120), || async {
        let unfinished = load::count_if(&api, &jobs, |job| job["status"]["conditions"].is_null()).await?;
        let unseen =
            load::count_if(&api, &autoscalers, |scaler| scaler["status"]["conditions"].is_null()).await?;
        let orphans = load::count_if(&api, &pods, |pod| pod["metadata"]["name"] == "orphan").await?;
        let claims = load::count_if(&api, &resource_claims, |_| true).await?;
        let unbound = load::count_if(&api, &volume_claims, |claim| {
            claim["metadata"]["name"] == "disk" && claim["status"]["phase"] != "Bound"
        })
        .await?;
        let done = unfinished + unseen + orphans + unbound == 0 && claims == 2;
        Ok((!done).then(|| {
            format!(
                "{unfinished} jobs, {unseen} autoscalers, {orphans} orphans, {unbound} unbound volume claims, {claims} of 2 ResourceClaims"
            )
        }))
    })
    .await?;
    let web = format!("{}/web", load::path("apps/v1", "deployments"));
    let evicted = json!({"spec": {"taints": [{"key": "example.com/away", "effect": "NoExecute"}]}});
    load::send_all(&api, [Request::merge(web, json!({"spec": {"replicas": 1}}))]).await?;
    load::send_all(&api, [Request::merge("/api/v1/nodes/node-1", evicted)]).await?;
    until("evictions", Duration::from_secs(60), || async {
        let left = load::count_if(&api, &pods, |pod| pod["metadata"]["name"] == "tenant").await?;
        Ok((left > 0).then(|| "the tenant is still there".to_owned()))
    })
    .await
    .context("taint eviction")?;
    Ok(())
}

fn objects() -> Vec<(String, Value)> {
    let job = |name: &str, image: &str, further: Value| {
        let mut template = template("job", image);
        template["spec"]["restartPolicy"] = "Never".into();
        let mut spec = json!({"completions": 2, "parallelism": 2, "backoffLimit": 0, "template": template});
        if let (Some(spec), Some(further)) = (spec.as_object_mut(), further.as_object()) {
            spec.extend(further.clone());
        }
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
    };
    let mut daemon = load::workload("DaemonSet", "agent", 0);
    if let Some(spec) = daemon["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    let mut stateful = load::workload("StatefulSet", "db", 2);
    stateful["spec"]["serviceName"] = "db".into();
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "main"}]},
        });
        if let (Some(all), Some(spec)) = (pod["spec"].as_object_mut(), spec.as_object()) {
            all.extend(spec.clone());
        }
        pod
    };
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    // Has a class, so that it cannot take the volume that is meant for the other claim.
    let mut ephemeral = claim.clone();
    ephemeral["storageClassName"] = "other".into();
    let device = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}});
    let port = json!([{"port": 80}]);
    let at =
        |group_version: &str, resource: &str, object: Value| (load::path(group_version, resource), object);
    vec![
        at("apps/v1", "deployments", load::workload("Deployment", "web", 3)),
        at("apps/v1", "statefulsets", stateful),
        at("apps/v1", "daemonsets", daemon),
        at("batch/v1", "jobs", job("done", "exit-0", json!({}))),
        at("batch/v1", "jobs", job("gone", "exit-0", json!({"ttlSecondsAfterFinished": 0}))),
        at(
            "batch/v1",
            "jobs",
            job(
                "indexed",
                "exit-1",
                json!({"completionMode": "Indexed", "backoffLimit": 6, "backoffLimitPerIndex": 0}),
            ),
        ),
        at(
            "v1",
            "services",
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": port},
            }),
        ),
        at(
            "v1",
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"}, "spec": {"ports": port}}),
        ),
        at(
            "v1",
            "endpoints",
            json!({
                "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "outside"},
                "subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": port}],
            }),
        ),
        at(
            "autoscaling/v2",
            "horizontalpodautoscalers",
            json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
                "spec": {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            }),
        ),
        at(
            "v1",
            "resourcequotas",
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"}, "spec": {"hard": {"pods": "100"}}}),
        ),
        (
            "/api/v1/persistentvolumes".to_owned(),
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/disk"}},
            }),
        ),
        at(
            "v1",
            "persistentvolumeclaims",
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"}, "spec": claim}),
        ),
        at(
            "resource.k8s.io/v1",
            "resourceclaimtemplates",
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "device"}, "spec": {"spec": device},
            }),
        ),
        // Without an owner: a claim that is created for a pod is deleted with the pod when its node is tainted.
        at(
            "resource.k8s.io/v1",
            "resourceclaims",
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "device"}, "spec": device}),
        ),
        at(
            "v1",
            "pods",
            pod(
                "claims",
                json!({
                    "resourceClaims": [{"name": "r", "resourceClaimTemplateName": "device"}],
                    "volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": ephemeral}}}],
                }),
            ),
        ),
        at("v1", "pods", pod("orphan", json!({"nodeName": "gone"}))),
        at("v1", "pods", pod("tenant", json!({"nodeName": "node-1"}))),
    ]
}
