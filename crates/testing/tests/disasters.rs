//! Staged disasters: what a mistake costs without guard rails, and with them. With `--nocapture` each test prints its table.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_testing::Cluster;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Pods of each workload, and how many objects a controller may delete within a minute.
const PODS: usize = 24;
const BUDGET: usize = 5;
const NODES: u16 = 4;
const AFTER: Duration = Duration::from_secs(15 * 60);
const FLAG: &str = "--flyball-deletions-per-minute=5";

/// What somebody does.
enum Strike {
    Apply(Value),
    Delete(&'static str, &'static str),
}

use Strike::{Apply, Delete};

struct Disaster {
    name: &'static str,
    /// What runs before.
    setup: Vec<Value>,
    strike: Vec<Strike>,
    nodes: u16,
    /// How many pods are lost without a budget.
    costs: usize,
    /// Whether a budget helps.
    is_covered: bool,
}

impl Default for Disaster {
    fn default() -> Self {
        Self { name: "", setup: vec![], strike: vec![], nodes: NODES, costs: PODS, is_covered: true }
    }
}

fn template(more: Value) -> Value {
    let mut spec =
        json!({"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "10m"}}}]});
    merge(&mut spec, more);
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

fn merge(base: &mut Value, more: Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| merge(base.entry(key).or_insert(Value::Null), value));
        }
        (base, more) => *base = more,
    }
}

/// A workload of this kind with the usual number of pods.
fn workload(version: &str, kind: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": "web"},
        "spec": {"replicas": PODS, "selector": {"matchLabels": {"app": "web"}}, "template": template(json!({}))},
    });
    merge(&mut object["spec"], spec);
    object
}

fn deployment(spec: Value) -> Value {
    workload("apps/v1", "Deployment", spec)
}

fn stateful_set(spec: Value) -> Value {
    let own = json!({"serviceName": "web", "podManagementPolicy": "Parallel"});
    let mut set = workload("apps/v1", "StatefulSet", own);
    merge(&mut set["spec"], spec);
    set
}

fn controller(replicas: usize) -> Value {
    let spec = json!({"replicas": replicas, "selector": {"app": "web"}, "template": template(json!({}))});
    json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": spec})
}

fn daemon_set(selector: Value) -> Value {
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}}, "template": template(json!({"nodeSelector": selector})),
    });
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"}, "spec": spec})
}

fn job(more: Value) -> Value {
    let mut spec = json!({
        "parallelism": PODS, "completions": PODS, "template": template(json!({
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "command": ["sleep", "100000"]}],
        })),
    });
    merge(&mut spec, more);
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec})
}

fn node(n: u16, more: Value) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{n}")}});
    merge(&mut node, more);
    node
}

/// Nodes `1..=count` get this.
fn nodes(count: u16, more: &Value) -> Vec<Strike> {
    (1..=count).map(|n| Apply(node(n, more.clone()))).collect()
}

fn taint() -> Value {
    json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
}

fn off() -> Value {
    json!({"metadata": {"annotations": {"flyball.dev/stopped": "true"}}})
}

fn disasters() -> Vec<Disaster> {
    let web = || vec![deployment(json!({}))];
    let patient =
        json!([{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    let scaler = |max: usize| {
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": max,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
        })
    };
    let all_at_once =
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}});
    let broken = json!({"template": {"metadata": {"annotations": {"flyball.dev/fail": "image"}}}});
    let with = |base: &Value, more: &Value| {
        let mut both = base.clone();
        merge(&mut both, more.clone());
        deployment(both)
    };
    let recreate = json!({"strategy": {"type": "Recreate"}});
    let one = |name, setup, strike: Strike, costs| Disaster {
        name,
        setup,
        strike: vec![strike],
        costs,
        ..Disaster::default()
    };
    let mut found = vec![
        Disaster {
            name: "all nodes are tainted",
            setup: web(),
            strike: nodes(NODES, &taint()),
            ..Disaster::default()
        },
        Disaster {
            name: "half of the nodes are tainted",
            setup: web(),
            strike: nodes(2, &taint()),
            costs: PODS / 2,
            ..Disaster::default()
        },
        Disaster {
            name: "a taint that is tolerated for a minute",
            setup: vec![deployment(json!({"template": template(json!({"tolerations": patient}))}))],
            strike: nodes(NODES, &taint()),
            ..Disaster::default()
        },
        Disaster {
            name: "half of the nodes are lost",
            setup: web(),
            strike: nodes(2, &off()),
            costs: PODS / 2,
            ..Disaster::default()
        },
        Disaster {
            name: "all Node objects are deleted",
            setup: web(),
            strike: ["node-1", "node-2", "node-3", "node-4"].map(|name| Delete("node", name)).into(),
            ..Disaster::default()
        },
        one("a Deployment is scaled to nothing", web(), Apply(deployment(json!({"replicas": 0}))), PODS),
        one("a Deployment is deleted", web(), Delete("deploy", "web"), PODS),
        one(
            "a broken rollout, all at once",
            vec![deployment(all_at_once.clone())],
            Apply(with(&all_at_once, &broken)),
            PODS,
        ),
        one(
            "a broken image with Recreate",
            vec![deployment(recreate.clone())],
            Apply(with(&recreate, &broken)),
            PODS,
        ),
        one("an autoscaler with a usage of nothing", web(), Apply(scaler(PODS)), PODS - 1),
        one("an autoscaler with a maximum of 2", web(), Apply(scaler(2)), PODS - 1),
    ];
    let replica_set = |replicas: usize| workload("apps/v1", "ReplicaSet", json!({"replicas": replicas}));
    found.extend([
        one("a ReplicaSet is scaled to nothing", vec![replica_set(PODS)], Apply(replica_set(0)), PODS),
        one(
            "a ReplicationController is scaled to nothing",
            vec![controller(PODS)],
            Apply(controller(0)),
            PODS,
        ),
        one(
            "a StatefulSet is scaled to nothing",
            vec![stateful_set(json!({}))],
            Apply(stateful_set(json!({"replicas": 0}))),
            PODS,
        ),
        one("a StatefulSet is deleted", vec![stateful_set(json!({}))], Delete("sts", "web"), PODS),
        Disaster {
            name: "a DaemonSet selects no node",
            setup: vec![daemon_set(json!({}))],
            strike: vec![Apply(daemon_set(json!({"role": "none"})))],
            nodes: 12,
            costs: 12,
            ..Disaster::default()
        },
        one("a Job is suspended", vec![job(json!({}))], Apply(job(json!({"suspend": true}))), PODS),
        one("a Job is deleted", vec![job(json!({}))], Delete("job", "web"), PODS),
        one(
            "a Job's deadline passes",
            vec![job(json!({"activeDeadlineSeconds": 120}))],
            Apply(job(json!({"activeDeadlineSeconds": 120}))),
            PODS,
        ),
        // All pods of a namespace are deleted by one request.
        Disaster {
            name: "a namespace is deleted",
            setup: vec![
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
                in_shop(deployment(json!({}))),
            ],
            strike: vec![Delete("ns", "shop")],
            is_covered: false,
            ..Disaster::default()
        },
    ]);
    found
}

fn in_shop(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("shop");
    object
}

async fn pods(cluster: &Cluster) -> anyhow::Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::all(Client::new(cluster.service(), "default"));
    Ok(pods.list(&ListParams::default()).await?.items)
}

fn running(pods: &[Pod]) -> BTreeSet<String> {
    let is_running = |pod: &&Pod| {
        pod.metadata.deletion_timestamp.is_none()
            && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    pods.iter().filter(is_running).filter_map(|pod| pod.metadata.uid.clone()).collect()
}

async fn start(flags: &[&str], setup: &[Value]) -> anyhow::Result<Cluster> {
    start_with(NODES, flags, setup).await
}

async fn start_with(nodes: u16, flags: &[&str], setup: &[Value]) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder().nodes(nodes).manager_flags(flags.iter().copied()).start().await?;
    for object in setup {
        cluster.apply(&object.to_string()).await?;
    }
    cluster.settled().await?;
    Ok(cluster)
}

/// The pods that ran before the strike and do not exist a quarter of an hour later, and the cluster.
async fn stage(disaster: &Disaster, flags: &[&str]) -> anyhow::Result<(usize, Cluster)> {
    let cluster = start_with(disaster.nodes, flags, &disaster.setup).await?;
    let before = running(&pods(&cluster).await?);
    for strike in &disaster.strike {
        match strike {
            Apply(object) => drop(cluster.apply(&object.to_string()).await?),
            Delete(kind, name) => drop(cluster.delete(kind, name).await?),
        }
    }
    cluster.advance(AFTER).await?;
    let left: BTreeSet<String> = pods(&cluster)
        .await?
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter_map(|pod| pod.metadata.uid)
        .collect();
    Ok((before.difference(&left).count(), cluster))
}

#[tokio::test]
async fn a_budget_for_deletions_bounds_what_a_mistake_costs() -> anyhow::Result<()> {
    println!("{:<46} {:>8} {:>6}", "pods lost", "without", "with");
    for disaster in disasters() {
        let name = disaster.name;
        let (without, cluster) = stage(&disaster, &[]).await.context(name)?;
        cluster.stop().await?;
        let (with, cluster) = stage(&disaster, &[FLAG]).await.context(name)?;
        cluster.stop().await?;
        println!("{name:<46} {without:>8} {with:>6}");
        ensure!(without == disaster.costs, "{name}: {without} pods are lost without a budget");
        let most = if disaster.is_covered { BUDGET } else { disaster.costs };
        ensure!(with <= most, "{name}: {with} pods are lost with a budget of {BUDGET}");
    }
    Ok(())
}

#[tokio::test]
async fn a_controller_that_is_held_says_so_and_goes_on_when_it_is_told() -> anyhow::Result<()> {
    let disaster = disasters().swap_remove(0);
    let (lost, cluster) = stage(&disaster, &[FLAG]).await?;
    ensure!(lost == BUDGET, "{lost} pods are lost");
    let client = Client::new(cluster.service(), "default");
    let events: Api<Event> = Api::all(client.clone());
    let held: Vec<Event> = events
        .list(&ListParams::default())
        .await?
        .items
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some("DeletionsHeld"))
        .collect();
    ensure!(held.len() == 1, "{held:?}");
    let message = held[0].message.clone().unwrap_or_default();
    ensure!(
        message.starts_with("taint-eviction-controller has deleted 5 objects within a minute"),
        "{message}"
    );
    // One pod at most was prepared for a deletion that was not made.
    let is_marked = |pod: &&Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        pod.metadata.deletion_timestamp.is_none()
            && conditions.into_iter().any(|one| one.type_ == "DisruptionTarget")
    };
    let marked = pods(&cluster).await?.iter().filter(is_marked).count();
    ensure!(marked <= 1, "{marked} pods are marked and spared");
    // It names the pod whose deletion was the first to be held; `why` says it of any.
    let spared = running(&pods(&cluster).await?).len();
    ensure!(spared >= PODS - BUDGET, "{spared} pods run");
    let name = held[0].involved_object.name.clone().context("about nothing")?;
    let why = cluster.why("pod", &name).await?;
    ensure!(why.contains("continue.flyball.dev/taint-eviction-controller"), "{why}");

    // An hour from now.
    let until = (cluster.now() + Duration::from_secs(3600)).to_string();
    let annotations = json!({"continue.flyball.dev/taint-eviction-controller": until});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "annotations": annotations}});
    cluster.apply(&namespace.to_string()).await?;
    cluster.advance(Duration::from_secs(60)).await?;
    let left = running(&pods(&cluster).await?).len();
    ensure!(left == 0, "{left} pods still run on tainted nodes");
    cluster.stop().await?;
    Ok(())
}

fn budget(min_available: usize) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": "web"}}},
    })
}

const RESPECTS: &str = "--flyball-taint-eviction-respects-budgets=true";

/// What `deploy/rbac-guards.yaml` grants.
fn role() -> anyhow::Result<Vec<Value>> {
    let text = include_str!("../../../deploy/rbac-guards.yaml");
    let documents = serde_yaml::Deserializer::from_str(text);
    documents.map(|document| Ok(serde::Deserialize::deserialize(document)?)).collect()
}

/// The fewest pods that run within some minutes after nodes were tainted, and how many are left on these nodes then.
async fn fewest_after_taint(flags: &[&str], tainted: u16) -> anyhow::Result<(usize, usize)> {
    let mut setup = role()?;
    // A new pod takes a while, so that pods that were taken are missed.
    let slow = json!({"template": {"metadata": {"annotations": {"flyball.dev/delay": "20s"}}}});
    setup.extend([deployment(slow), budget(PODS - 2)]);
    let cluster = start(flags, &setup).await?;
    cluster.advance(Duration::from_secs(60)).await?;
    for n in 1..=tainted {
        cluster.apply(&node(n, taint()).to_string()).await?;
    }
    let mut fewest = PODS;
    for _ in 0..120 {
        cluster.advance(Duration::from_secs(2)).await?;
        fewest = fewest.min(running(&pods(&cluster).await?).len());
    }
    let tainted: Vec<String> = (1..=tainted).map(|n| format!("node-{n}")).collect();
    let all = pods(&cluster).await?;
    let on_tainted = |pod: &&Pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|name| tainted.contains(name))
    };
    let left = all.iter().filter(on_tainted).count();
    cluster.stop().await?;
    Ok((fewest, left))
}

#[tokio::test]
async fn taint_eviction_that_respects_budgets_takes_no_more_pods_at_once_than_they_allow()
-> anyhow::Result<()> {
    let (without, left) = fewest_after_taint(&[], 2).await?;
    println!("two of four nodes tainted, a budget of {} of {PODS}: {without} ran without", PODS - 2);
    ensure!(without < PODS - 2 && left == 0, "{without} pods ran, and {left} are left");
    let (with, left) = fewest_after_taint(&[RESPECTS], 2).await?;
    println!("two of four nodes tainted, a budget of {} of {PODS}: {with} ran with", PODS - 2);
    ensure!(with >= PODS - 2, "{with} pods ran at least");
    ensure!(left == 0, "{left} pods are still on tainted nodes");
    Ok(())
}

#[tokio::test]
async fn a_budget_does_not_keep_pods_on_a_lost_node() -> anyhow::Result<()> {
    let mut setup = role()?;
    // It never allows a disruption, so pods that are not deleted are never replaced.
    setup.extend([deployment(json!({})), budget(PODS)]);
    let cluster = start(&[RESPECTS], &setup).await?;
    cluster.apply(&node(1, off()).to_string()).await?;
    cluster.advance(AFTER).await?;
    cluster.settled().await?;
    let all = pods(&cluster).await?;
    ensure!(running(&all).len() >= PODS, "only {} pods run", running(&all).len());
    let ready =
        cluster.get("deploy", "web").await?.context("no Deployment")?["status"]["readyReplicas"].clone();
    ensure!(ready == PODS, "{ready} are ready");
    // On a node that is merely tainted, they stay until somebody changes the budget.
    cluster.apply(&node(2, taint()).to_string()).await?;
    cluster.advance(AFTER).await?;
    let ready =
        cluster.get("deploy", "web").await?.context("no Deployment")?["status"]["readyReplicas"].clone();
    ensure!(ready == PODS, "{ready} are ready after a taint");
    let stays: Vec<Pod> = pods(&cluster)
        .await?
        .into_iter()
        .filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("node-2"))
        .collect();
    let name = stays.first().and_then(|pod| pod.metadata.name.clone()).context("no pod stayed")?;
    let why = cluster.why("pod", &name).await?;
    ensure!(why.contains("disruption budget allows it"), "{why}");
    cluster.apply(&budget(PODS - 4).to_string()).await?;
    cluster.advance(AFTER).await?;
    let left = pods(&cluster)
        .await?
        .iter()
        .filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("node-2"))
        .count();
    ensure!(left == 0, "{left} pods are still there");
    cluster.stop().await?;
    Ok(())
}
