//! The cluster without a socket: what scheduler and nodes do to pods, seen as a client sees it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::node::Node;
use flyball_api::{Key, ResourceType};
use flyball_cache::{Informer, InformerOptions, Informers};
use flyball_client::{Client, ListParams, Patch};
use flyball_playground::cluster::{Cluster, Options};
use flyball_playground::nodes;
use flyball_playground::nodes::node::STOPPED;
use flyball_playground::objects::Pod;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const EVENTS: ResourceType = ResourceType::new("", "v1", "events", "Event", true);
const CLASSES: ResourceType =
    ResourceType::new("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false);

struct TestCluster {
    cluster: Cluster,
    client: Client,
    pods: Arc<Informer<Pod>>,
}

impl TestCluster {
    async fn start(count: u16) -> anyhow::Result<Self> {
        let nodes = nodes::Options { count, ..nodes::Options::default() };
        // Service accounts must be there before pods can be made.
        let controllers = vec!["serviceaccount-controller".to_owned()];
        let cluster = Cluster::start(Options { nodes, controllers, ..Options::default() }).await?;
        let client = cluster.admin();
        let informers = Informers::new(client.clone(), InformerOptions::default());
        let accounts = informers.get::<flyball_api::service_account::ServiceAccount>();
        wait(&accounts, || accounts.store().get(&Key::new("default", "default")))
            .await
            .context("no account")?;
        let pods = informers.get::<Pod>();
        pods.synced().await;
        Ok(Self { cluster, client, pods })
    }

    async fn make(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        });
        for (key, value) in spec.as_object().context("no object")? {
            pod["spec"][key] = value.clone();
        }
        self.client.create::<Pod>("default", &pod).await.with_context(|| format!("make {name}"))?;
        Ok(())
    }

    async fn until(&self, name: &str, holds: impl Fn(&Pod) -> bool) -> anyhow::Result<Arc<Pod>> {
        let key = Key::new("default", name);
        let found = wait(&self.pods, || self.pods.store().get(&key).filter(|pod| holds(pod))).await;
        found.with_context(|| {
            format!("{name} is {:?}", self.pods.store().get(&key).map(|pod| pod.status.clone()))
        })
    }

    async fn events_of(&self, name: &str, reason: &str) -> anyhow::Result<Vec<String>> {
        let selector = format!("involvedObject.name={name},reason={reason}");
        let params = ListParams { field_selector: Some(selector.into()), ..ListParams::default() };
        let events = self.client.list_dynamic(&EVENTS, Some("default"), &params).await?;
        Ok(events.items.iter().filter_map(|event| event["message"].as_str()).map(str::to_owned).collect())
    }
}

async fn wait<T: flyball_api::Resource, R>(
    informer: &Arc<Informer<T>>,
    look: impl Fn() -> Option<R>,
) -> Option<R> {
    let changed = Arc::new(tokio::sync::Notify::new());
    let _subscription = informer.subscribe({
        let changed = Arc::clone(&changed);
        Box::new(move |_| changed.notify_one())
    });
    let seen = async {
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            changed.notified().await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.ok()
}

fn asks_for(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fits_nowhere_waits_and_says_why_until_there_is_room() -> anyhow::Result<()> {
    let test = TestCluster::start(1).await?;
    test.make("picky", json!({"nodeSelector": {"disk": "fast"}})).await?;
    let waiting = test.until("picky", |pod| pod.status.condition("PodScheduled").is_some()).await?;
    let condition = waiting.status.condition("PodScheduled").context("no condition")?;
    let want = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
                preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    ensure!(condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable"));
    ensure!(condition.message.as_deref() == Some(want), "{condition:?}");

    let patch = Patch::Merge(json!({"metadata": {"labels": {"disk": "fast"}}}));
    test.client.patch::<Node>(&Key::cluster("node-1"), None, &patch).await?;
    let runs = test.until("picky", |pod| pod.status.is_true("Ready")).await?;
    ensure!(runs.spec.node_name == "node-1" && runs.status.pod_ip == "10.244.1.2", "{:?}", runs.status);
    let events = test.events_of("picky", "FailedScheduling").await?;
    ensure!(events == [want], "{events:?}");
    test.cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_important_pod_takes_the_place_of_a_lesser_one_which_is_asked_once() -> anyhow::Result<()> {
    let test = TestCluster::start(1).await?;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000,
    });
    test.client.create_dynamic(&CLASSES, None, &class).await?;
    test.make("low", asks_for("4")).await?;
    test.until("low", |pod| pod.status.is_true("Ready")).await?;
    let mut important = asks_for("4");
    important["priorityClassName"] = json!("high");
    test.make("vip", important).await?;
    test.until("vip", |pod| pod.status.is_true("Ready")).await?;
    let deleted = test.cluster.decisions().recent(100, |decision| {
        decision.controller == "default-scheduler"
            && decision.action == "delete"
            && decision.target.name == "low"
    });
    ensure!(deleted.len() == 1, "{deleted:?}");
    test.cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_off_does_nothing_and_goes_on_when_it_is_on() -> anyhow::Result<()> {
    let test = TestCluster::start(1).await?;
    let power = |value: Value| Patch::Merge(json!({"metadata": {"annotations": {STOPPED: value}}}));
    let node = Key::cluster("node-1");
    test.client.patch::<Node>(&node, None, &power(json!("true"))).await?;
    test.make("late", json!({"restartPolicy": "Never"})).await?;
    test.until("late", |pod| !pod.spec.node_name.is_empty()).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = test.until("late", |_| true).await?;
    ensure!(idle.status.container_statuses.is_empty(), "{:?}", idle.status);

    test.client.patch::<Node>(&node, None, &power(Value::Null)).await?;
    test.until("late", |pod| pod.status.phase == "Succeeded").await?;
    test.cluster.stop().await;
    Ok(())
}
