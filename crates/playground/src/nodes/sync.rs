//! The shell of the simulated nodes: sends heartbeats, and takes the next step for each pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::lease::Lease;
use flyball_api::node::Node;
use flyball_api::time::truncate;
use flyball_api::{Key, Timestamp};
use flyball_cache::{Informer, Informers};
use flyball_client::{DeleteOptions, Error, Patch};
use flyball_queue::{Backoff, Priority, Queue, Unobserved};
use flyball_runtime::Signal;
use flyball_runtime::events::ObjectRef;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use smol_str::{SmolStr, ToSmolStr as _};
use tokio::task::JoinSet;

use super::addresses::Addresses;
use super::behaviour::Behaviour;
use super::life::{self, Place, Step};
use super::node;
use crate::objects::{Pod, PodStatus};
use crate::writer::{Write, Writer};

/// Pods that are synced in parallel.
const WORKERS: usize = 16;
/// Nodes that register or send a heartbeat in parallel.
const AT_ONCE: usize = 32;
/// The interval at which a node's status is written even if nothing has changed.
const STATUS_EVERY: Duration = Duration::from_secs(300);

/// Earliest next check after a write. Usually the cache shows the change sooner; a write that changed nothing needs this.
const SOONEST: Duration = Duration::from_millis(20);

/// Options of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The minimum number of nodes; those of an earlier run stay.
    pub count: u16,
    /// How often each renews its lease.
    pub heartbeat: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { count: 3, heartbeat: Duration::from_secs(10) }
    }
}

/// When pods arrived, in milliseconds: statuses have seconds, and most delays are shorter.
#[derive(Default)]
struct Arrivals(Mutex<BTreeMap<SmolStr, Timestamp>>);

impl Arrivals {
    fn of(&self, pod: &Pod, now: Timestamp) -> Timestamp {
        let first = pod.status.start_time.unwrap_or(now);
        *self.0.lock().entry(pod.metadata.uid.to_smolstr()).or_insert(first)
    }

    fn forget(&self, pod: &Pod) {
        self.0.lock().remove(&pod.metadata.uid.to_smolstr());
    }
}

struct Nodes {
    writer: Writer,
    nodes: Arc<Informer<Node>>,
    pods: Arc<Informer<Pod>>,
    addresses: Addresses,
    arrivals: Arrivals,
    heartbeat: Duration,
}

/// Registers missing nodes and writes their first status, so that pods can be scheduled.
pub async fn register(writer: &Writer, count: u16) -> Result<(), Error> {
    let all = stream::iter(1..=count).map(|n| join(writer, n)).buffer_unordered(AT_ONCE);
    all.try_collect().await
}

async fn join(writer: &Writer, n: u16) -> Result<(), Error> {
    let node = match writer.client().create::<Node>(None, &node::manifest(n)).await {
        Ok(node) => node,
        Err(error) if error.is_already_exists() => return Ok(()),
        Err(error) => return Err(error),
    };
    let now = writer.now();
    renew_lease(writer, &node, now).await?;
    report(writer, &node, now).await?;
    // The server taints new nodes until they are ready. These are ready at once; do not wait for the controller that
    // removes the taint.
    let patch = Patch::Merge(json!({"spec": {"taints": null}}));
    writer.client().patch::<Node>(&node.metadata.key(), None, &patch).await.map(drop)
}

/// Runs all simulated nodes until `stop`.
pub async fn run(writer: Writer, informers: Informers, options: Options, stop: Signal) {
    let nodes = Arc::new(Nodes {
        writer,
        nodes: informers.get::<Node>(),
        pods: informers.get::<Pod>(),
        addresses: Addresses::default(),
        arrivals: Arrivals::default(),
        heartbeat: options.heartbeat,
    });
    if !nodes.nodes.synced().await || !nodes.pods.synced().await {
        return;
    }
    let queue: Queue<Key> = Queue::new(Backoff::default(), Unobserved);
    let _pods = nodes.pods.subscribe({
        let (queue, nodes) = (queue.clone(), Arc::clone(&nodes));
        Box::new(move |change| match change.new {
            Some(pod) if pod.spec.node_name.is_empty() => {}
            Some(pod) => queue.add(pod.metadata.key(), Priority::Change),
            None => {
                nodes.addresses.release(change.object());
                nodes.arrivals.forget(change.object());
            }
        })
    });
    let _nodes = nodes.nodes.subscribe({
        let (queue, nodes) = (queue.clone(), Arc::clone(&nodes));
        Box::new(move |change| {
            let was = change.old.is_some_and(|node| !node::is_stopped(node));
            let is = change.new.is_some_and(|node| !node::is_stopped(node));
            if is && !was {
                for pod in nodes.pods.store().list() {
                    if pod.spec.node_name == change.object().metadata.name {
                        queue.add(pod.metadata.key(), Priority::Change);
                    }
                }
            }
        })
    });
    let mut tasks = JoinSet::new();
    for _ in 0..WORKERS {
        tasks.spawn(work(Arc::clone(&nodes), queue.clone()));
    }
    tasks.spawn({
        let nodes = Arc::clone(&nodes);
        async move { nodes.heartbeats().await }
    });
    stop.wait().await;
    queue.close();
}

async fn work(nodes: Arc<Nodes>, queue: Queue<Key>) {
    while let Some(key) = queue.next().await {
        match nodes.sync_pod(&key).await {
            Ok(None) => queue.forget(&key),
            Ok(Some(wait)) => {
                queue.forget(&key);
                queue.add_after(key.clone(), wait);
            }
            Err(error) => {
                tracing::debug!(pod = %*key, %error, "simulated node: a write failed; retrying");
                queue.retry(key.clone());
            }
        }
    }
}

impl Nodes {
    /// Takes the next step for a pod; returns when to check again.
    async fn sync_pod(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.pods.store().get(key) else { return Ok(None) };
        let Some(node) = self.nodes.store().get(&Key::cluster(pod.spec.node_name.clone())) else {
            return Ok(None);
        };
        if !node::is_simulated(&node) || node::is_stopped(&node) {
            return Ok(None);
        }
        let host_ip = node::host_ip(&node);
        let pod_ip = match pod.spec.host_network {
            true => host_ip.as_str().into(),
            // A node without a free address has more pods than it allows; they wait.
            false => match self.addresses.of(&pod, &node) {
                Some(address) => address,
                None => return Ok(Some(self.heartbeat)),
            },
        };
        let now = self.writer.now();
        let place = Place { host_ip: host_ip.into(), pod_ip, since: self.arrivals.of(&pod, now) };
        match life::next(&pod, &place, now) {
            Step::Rest(wait) => Ok(wait),
            Step::Report(status, again) => {
                self.report(&pod, &status).await?;
                Ok(again.map(|wait| wait.max(SOONEST)))
            }
            Step::Remove => self.remove(&pod).await,
        }
    }

    async fn report(&self, pod: &Pod, status: &PodStatus) -> Result<(), Error> {
        let key = pod.metadata.key();
        let patch =
            Patch::Strategic(json!({"metadata": {"uid": pod.metadata.uid.to_string()}, "status": status}));
        let request = self.writer.client().patch::<Pod>(&key, Some("status"), &patch);
        let written = match reason_to_log(pod, status) {
            Some(why) => {
                let write = Write { action: "patch", key: &key, subresource: "status", why };
                self.writer.write::<Pod, _>(write, request).await
            }
            None => request.await,
        };
        match written {
            Ok(_) => {
                self.emit_events(pod, status);
                Ok(())
            }
            Err(error) if is_outdated(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn remove(&self, pod: &Pod) -> Result<Option<Duration>, Error> {
        let key = pod.metadata.key();
        let options = DeleteOptions {
            uid: Some(pod.metadata.uid.clone()),
            grace_period: Some(0),
            ..DeleteOptions::default()
        };
        let why = format!("its containers have ended on {}", pod.spec.node_name);
        let write = Write { action: "delete", key: &key, subresource: "", why };
        match self.writer.write::<Pod, _>(write, self.writer.client().delete::<Pod>(&key, &options)).await {
            Ok(_) => Ok(None),
            Err(error) if is_outdated(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The events that a kubelet would send.
    fn emit_events(&self, pod: &Pod, status: &PodStatus) {
        let about = ObjectRef::of(pod);
        let events = self.writer.events();
        if pod.status.start_time.is_none() {
            for complaint in Behaviour::read(&pod.metadata.annotations).complaints {
                events.warning(&about, "InvalidSimulation", complaint);
            }
        }
        let olds = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
        let olds: Vec<_> = olds.collect();
        for new in status.init_container_statuses.iter().chain(&status.container_statuses) {
            let old = olds.iter().find(|old| old.name == new.name);
            let was_running = old.is_some_and(|old| old.state.running.is_some());
            let same_run = old.is_some_and(|old| old.restart_count == new.restart_count);
            if new.state.running.is_some() && !(was_running && same_run) {
                events.normal(
                    &about,
                    "Pulled",
                    format!("Container image {:?} already present on machine", new.image),
                );
                events.normal(&about, "Created", "Container created");
                events.normal(&about, "Started", "Container started");
            }
            if was_running && new.state.terminated.is_some() && pod.metadata.is_deleting() {
                events.normal(&about, "Killing", format!("Stopping container {}", new.name));
            }
            let waits =
                |s: &crate::objects::ContainerStatus| s.state.waiting.as_ref().map(|w| w.reason.clone());
            let reason = waits(new);
            if reason.as_deref() == Some("CrashLoopBackOff") && old.and_then(|old| waits(old)) != reason {
                let meta = &pod.metadata;
                let text = format!(
                    "Back-off restarting failed container {} in pod {}_{}({})",
                    new.name, meta.name, meta.namespace, meta.uid
                );
                events.warning(&about, "BackOff", text);
            }
            if reason.as_deref() == Some("ImagePullBackOff") && old.and_then(|old| waits(old)) != reason {
                events.warning(&about, "Failed", format!("Failed to pull image {:?}: simulated", new.image));
            }
        }
    }

    /// Renews leases, and repairs the status of nodes that the node lifecycle controller has marked.
    async fn heartbeats(&self) {
        let mut turn = tokio::time::interval(self.heartbeat);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turn.tick().await;
            let mut nodes = self.nodes.store().list();
            nodes.retain(|node| node::is_simulated(node) && !node::is_stopped(node));
            nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            stream::iter(nodes).for_each_concurrent(AT_ONCE, |node| self.heartbeat_of(node)).await;
        }
    }

    async fn heartbeat_of(&self, node: Arc<Node>) {
        let now = self.writer.now();
        let renewed = renew_lease(&self.writer, &node, now).await;
        let reported = match is_stale(&node, now) {
            true => report(&self.writer, &node, now).await,
            false => Ok(()),
        };
        if let Err(error) = renewed.and(reported) {
            tracing::debug!(node = %node.metadata.name, %error, "simulated node: heartbeat failed");
        }
    }
}

/// The reason for the decision log, if users should see the change.
fn reason_to_log(pod: &Pod, status: &PodStatus) -> Option<String> {
    let node = &pod.spec.node_name;
    let was_ready = pod.status.is_true("Ready");
    let ready = status.is_true("Ready");
    match status.phase.as_str() {
        _ if pod.metadata.is_deleting() => {
            Some(format!("its deletion was requested, and its containers have stopped on {node}"))
        }
        "Running" if ready && !was_ready => Some(format!("it runs on {node} and is ready")),
        "Running" if !ready && was_ready => Some(format!("it is no longer ready on {node}")),
        phase if pod.status.phase != phase && phase != "Pending" => Some(match phase {
            "Succeeded" => format!("it has done its work on {node}"),
            "Failed" => format!("it has failed on {node}"),
            _ => format!("it runs on {node}"),
        }),
        _ => None,
    }
}

/// Whether the pod was deleted, replaced or changed meanwhile: the cache will show it.
fn is_outdated(error: &Error) -> bool {
    error.is_not_found() || error.is_conflict()
}

/// Whether a node's status must be written again: it is old, or its Ready condition is not `True` any more.
fn is_stale(node: &Node, now: Timestamp) -> bool {
    let Some(ready) = node.condition("Ready") else { return true };
    let renewed = ready.last_heartbeat_time.unwrap_or(Timestamp::UNIX_EPOCH);
    ready.status != "True"
        || Duration::try_from(now.duration_since(renewed)).unwrap_or_default() >= STATUS_EVERY
}

/// Registers the node of a machine. Its taints are for controllers to remove.
pub(super) async fn enter(writer: &Writer, manifest: &Value) -> Result<(), Error> {
    let node = writer.client().create::<Node>(None, manifest).await?;
    let now = writer.now();
    renew_lease(writer, &node, now).await?;
    report(writer, &node, now).await
}

async fn renew_lease(writer: &Writer, node: &Node, now: Timestamp) -> Result<(), Error> {
    let lease = node::lease(node, now);
    let key = Key::new(node::LEASES, node.metadata.name.clone());
    let patch = Patch::Merge(lease.clone());
    match writer.client().patch::<Lease>(&key, None, &patch).await {
        Err(error) if error.is_not_found() => {
            writer.client().create::<Lease>(node::LEASES, &lease).await.map(drop)
        }
        other => other.map(drop),
    }
}

async fn report(writer: &Writer, node: &Node, now: Timestamp) -> Result<(), Error> {
    let patch = Patch::Strategic(json!({"status": node::status(node, truncate(now))}));
    let key = Key::cluster(node.metadata.name.clone());
    writer.client().patch::<Node>(&key, Some("status"), &patch).await.map(drop)
}
