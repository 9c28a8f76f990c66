//! The shell of the scheduler: after every change it decides about the pending pods, highest priority first, and writes the
//! decisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flyball_api::namespace::Namespace;
use flyball_api::node::Node;
use flyball_api::persistent_volume::PersistentVolume;
use flyball_api::persistent_volume_claim::PersistentVolumeClaim;
use flyball_api::pod_disruption_budget::PodDisruptionBudget;
use flyball_api::storage_class::StorageClass;
use flyball_api::time::format_seconds;
use flyball_api::{Key, Object, Resource, ResourceVersion, Timestamp, Uid};
use flyball_cache::{Informer, Informers, Subscription};
use flyball_client::{DeleteOptions, Error, Patch};
use flyball_runtime::Signal;
use flyball_runtime::events::ObjectRef;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::sync::Notify;

use super::decide::{ScheduleResult, decide};
use super::preempt::Preemption;
use super::snapshot::Snapshot;
use super::volumes::{Preparation, SELECTED_NODE, Volumes};
use crate::objects::Pod;
use crate::writer::{Write, Writer};

/// Delay before a failed write is repeated.
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);

/// Pods that are bound in parallel.
const AT_ONCE: usize = 32;

struct Scheduler {
    writer: Writer,
    pods: Arc<Informer<Pod>>,
    nodes: Arc<Informer<Node>>,
    namespaces: Arc<Informer<Namespace>>,
    claims: Arc<Informer<PersistentVolumeClaim>>,
    volumes: Arc<Informer<PersistentVolume>>,
    classes: Arc<Informer<StorageClass>>,
    budgets: Arc<Informer<PodDisruptionBudget>>,
    changes: Arc<Changes>,
}

/// Changes since the last round.
#[derive(Debug, Default)]
struct Changes {
    any: Notify,
    /// Counts the changes after which an unschedulable pod may fit.
    room: AtomicU64,
}

impl Changes {
    fn record(&self, makes_room: bool) {
        if makes_room {
            self.room.fetch_add(1, Ordering::Relaxed);
        }
        self.any.notify_one();
    }
}

/// State that is kept between rounds.
#[derive(Default)]
struct Memory {
    /// Bound by us, but the cache does not show it yet.
    assumed: BTreeMap<Key, (Uid, SmolStr)>,
    /// Preempted by us, but the cache does not show it yet.
    leaving: BTreeMap<Key, Uid>,
    /// Unschedulable, with the resourceVersion and the value of `room` when that was decided.
    parked: BTreeMap<Key, (Uid, ResourceVersion, u64)>,
}

/// Schedules pods until `stop`.
pub async fn run(writer: Writer, informers: Informers, stop: Signal) {
    let scheduler = Scheduler {
        writer,
        pods: informers.get(),
        nodes: informers.get(),
        namespaces: informers.get(),
        claims: informers.get(),
        volumes: informers.get(),
        classes: informers.get(),
        budgets: informers.get(),
        changes: Arc::default(),
    };
    tokio::select! {
        biased;
        () = stop.wait() => {}
        () = scheduler.run() => {}
    }
}

impl Scheduler {
    async fn run(&self) {
        let synced = [
            self.pods.synced().await,
            self.nodes.synced().await,
            self.namespaces.synced().await,
            self.claims.synced().await,
            self.volumes.synced().await,
            self.classes.synced().await,
            self.budgets.synced().await,
        ];
        if synced.contains(&false) {
            return;
        }
        let changes = Arc::clone(&self.changes);
        let _pods = self.pods.subscribe(Box::new(move |change| {
            let placed = |pod: Option<&Arc<Pod>>| pod.is_some_and(|pod| !pod.spec.node_name.is_empty());
            changes.record(placed(change.old) || placed(change.new));
        }));
        let _others = [
            self.observe(&self.nodes),
            self.observe(&self.namespaces),
            self.observe(&self.claims),
            self.observe(&self.volumes),
            self.observe(&self.classes),
        ];
        let mut memory = Memory::default();
        loop {
            self.changes.any.notified().await;
            if !self.round(&mut memory).await {
                tokio::time::sleep(RETRY).await;
                self.changes.record(false);
            }
        }
    }

    fn observe<T: Object>(&self, informer: &Arc<Informer<T>>) -> Subscription {
        let changes = Arc::clone(&self.changes);
        informer.subscribe(Box::new(move |_| changes.record(true)))
    }

    /// One pass over all pending pods. False if a write failed.
    async fn round(&self, memory: &mut Memory) -> bool {
        let room = self.changes.room.load(Ordering::Relaxed);
        // The list is read after `forget`: it must contain what `forget` drops because the cache shows it.
        memory.forget(&self.pods);
        let all = self.pods.store().list();
        let mut waiting: Vec<&Arc<Pod>> =
            all.iter().filter(|pod| is_ours(pod) && !memory.has_settled(pod, room)).collect();
        if waiting.is_empty() {
            return true;
        }
        waiting.sort_by_key(|pod| {
            (std::cmp::Reverse(pod.priority()), pod.metadata.creation_timestamp, pod.metadata.key())
        });
        let mut snapshot = self.snapshot(&all, memory);
        let mut succeeded = true;
        let mut bindings = Vec::new();
        for pod in waiting {
            match self.place(pod, &mut snapshot, memory).await {
                Ok(Some((node, fitting))) => {
                    memory.assumed.insert(pod.metadata.key(), (pod.metadata.uid.clone(), node.clone()));
                    bindings.push((Arc::clone(pod), node, fitting));
                }
                Ok(None) => {
                    let meta = &pod.metadata;
                    memory.parked.insert(meta.key(), (meta.uid.clone(), meta.resource_version, room));
                }
                Err(error) => succeeded &= is_outdated(pod, &error),
            }
        }
        // Decisions are made in sequence, as each changes the snapshot; they are written in parallel.
        let of = snapshot.nodes.len();
        let bindings = bindings.into_iter();
        let bindings: Vec<_> =
            bindings.map(|(pod, node, fitting)| self.bind(pod, node, fitting, of)).collect();
        let bound: Vec<_> = stream::iter(bindings).buffer_unordered(AT_ONCE).collect().await;
        for (pod, outcome) in bound {
            if let Err(error) = outcome {
                memory.assumed.remove(&pod.metadata.key());
                succeeded &= is_outdated(&pod, &error);
            }
        }
        succeeded
    }

    fn snapshot(&self, pods: &[Arc<Pod>], memory: &Memory) -> Snapshot {
        fn keyed<T: Resource>(informer: &Informer<T>) -> BTreeMap<Key, Arc<T>> {
            informer.store().list().into_iter().map(|object| (object.meta().key(), object)).collect()
        }
        fn named<T: Resource>(informer: &Informer<T>) -> BTreeMap<SmolStr, Arc<T>> {
            informer.store().list().into_iter().map(|object| (object.meta().name.clone(), object)).collect()
        }
        let placed = pods.iter().map(|pod| memory.as_known(pod, self.writer.now()));
        let mut snapshot = Snapshot::new(self.nodes.store().list(), placed);
        for pod in pods.iter().filter(|pod| pod.spec.node_name.is_empty()) {
            if let Some((_, node)) = memory.assumed.get(&pod.metadata.key()) {
                snapshot.assume(pod, node);
            }
        }
        let namespaces = named(&self.namespaces);
        snapshot.namespaces = namespaces
            .into_iter()
            .map(|(name, namespace)| (name, namespace.metadata.labels.clone()))
            .collect();
        snapshot.volumes = Volumes {
            claims: keyed(&self.claims),
            volumes: named(&self.volumes),
            classes: named(&self.classes),
        };
        snapshot.budgets = self.budgets.store().list();
        snapshot
    }

    /// Decides about one pod. Returns the node and the number of feasible nodes if it is to be bound; everything else is
    /// written here.
    async fn place(
        &self,
        pod: &Arc<Pod>,
        snapshot: &mut Snapshot,
        memory: &mut Memory,
    ) -> Result<Option<(SmolStr, usize)>, Error> {
        match decide(pod, snapshot) {
            ScheduleResult::Bind { node, fitting } => {
                snapshot.assume(pod, &node);
                Ok(Some((node, fitting)))
            }
            ScheduleResult::Prepare { node, preparations } => {
                for preparation in preparations {
                    self.prepare(pod, &node, preparation).await?;
                }
                snapshot.assume(pod, &node);
                Ok(None)
            }
            ScheduleResult::Unschedulable { message, preemption } => {
                let nominated = preemption.as_ref().map(|preemption| preemption.node.clone());
                self.refuse(pod, &message, nominated.as_deref()).await?;
                if let Some(preemption) = preemption {
                    self.evict(pod, &preemption, memory).await?;
                }
                let place = nominated.unwrap_or_else(|| pod.status.nominated_node_name.clone());
                snapshot.assume(pod, &place);
                Ok(None)
            }
        }
    }

    async fn bind(
        &self,
        pod: Arc<Pod>,
        node: SmolStr,
        fitting: usize,
        of: usize,
    ) -> (Arc<Pod>, Result<(), Error>) {
        let key = pod.metadata.key();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid.to_string()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let why = format!("{node} suits it best of the {fitting} out of {of} nodes on which it fits");
        let write = Write { action: "create", key: &key, subresource: "binding", why };
        let pods = Pod::TYPE;
        let request = self.writer.client().create_subresource::<Value>(&pods, &key, "binding", &binding);
        let bound = self.writer.write::<Pod, _>(write, request).await;
        if bound.is_ok() {
            let message = format!("Successfully assigned {key} to {node}");
            self.writer.events().normal(&ObjectRef::of(&*pod), "Scheduled", message);
        }
        (pod, bound.map(drop))
    }

    async fn prepare(&self, pod: &Pod, node: &str, preparation: Preparation) -> Result<(), Error> {
        let client = self.writer.client();
        let why = format!("{} goes to {node} and waits for this volume", pod.metadata.key());
        match preparation {
            Preparation::Provision { claim } => {
                let patch = Patch::Merge(json!({"metadata": {"annotations": {SELECTED_NODE: node}}}));
                let write = Write { action: "patch", key: &claim, subresource: "", why };
                let request = client.patch::<PersistentVolumeClaim>(&claim, None, &patch);
                self.writer.write::<PersistentVolumeClaim, _>(write, request).await.map(drop)
            }
            Preparation::Promise { volume, claim } => {
                let Some(wanted) = self.claims.store().get(&claim) else { return Ok(()) };
                let reference = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace,
                    "name": claim.name, "uid": wanted.metadata.uid.to_string(),
                });
                let bound = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
                let patch = Patch::Merge(
                    json!({"metadata": {"annotations": bound}, "spec": {"claimRef": reference}}),
                );
                let key = Key::cluster(volume);
                let write = Write { action: "patch", key: &key, subresource: "", why };
                let request = client.patch::<PersistentVolume>(&key, None, &patch);
                self.writer.write::<PersistentVolume, _>(write, request).await.map(drop)
            }
        }
    }

    /// Writes the PodScheduled condition and emits an event, once per message.
    async fn refuse(&self, pod: &Pod, message: &str, nominated: Option<&str>) -> Result<(), Error> {
        let is_known = pod.status.condition("PodScheduled").is_some_and(|condition| {
            condition.status == "False" && condition.message.as_deref() == Some(message)
        });
        if is_known && nominated.is_none_or(|node| pod.status.nominated_node_name == node) {
            return Ok(());
        }
        let key = pod.metadata.key();
        let since = pod.status.condition("PodScheduled").filter(|condition| condition.status == "False");
        let since = since.and_then(|condition| condition.last_transition_time).unwrap_or(self.writer.now());
        let mut status = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "observedGeneration": pod.metadata.generation, "lastTransitionTime": format_seconds(since),
        }]});
        if let Some(node) = nominated {
            status["nominatedNodeName"] = json!(node);
        }
        let patch =
            Patch::Strategic(json!({"metadata": {"uid": pod.metadata.uid.to_string()}, "status": status}));
        let write = Write { action: "patch", key: &key, subresource: "status", why: message.to_owned() };
        self.writer
            .write::<Pod, _>(write, self.writer.client().patch::<Pod>(&key, Some("status"), &patch))
            .await?;
        self.writer.events().warning(&ObjectRef::of(pod), "FailedScheduling", message);
        Ok(())
    }

    async fn evict(&self, pod: &Pod, preemption: &Preemption, memory: &mut Memory) -> Result<(), Error> {
        let client = self.writer.client();
        for victim in preemption.victims.iter().filter(|victim| !victim.metadata.is_deleting()) {
            let key = victim.metadata.key();
            let why = format!(
                "{} has a higher priority ({} over {}) and fits nowhere else",
                pod.metadata.key(),
                pod.priority(),
                victim.priority()
            );
            let patch = Patch::Strategic(json!({
                "metadata": {"uid": victim.metadata.uid.to_string()},
                "status": {"conditions": [{
                    "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                    "message": format!("{NAME}: preempting to accommodate a higher priority pod", NAME = super::NAME),
                    "lastTransitionTime": format_seconds(self.writer.now()),
                }]},
            }));
            client.patch::<Pod>(&key, Some("status"), &patch).await?;
            let write = Write { action: "delete", key: &key, subresource: "", why };
            let options = DeleteOptions::uid(&victim.metadata.uid);
            self.writer.write::<Pod, _>(write, client.delete::<Pod>(&key, &options)).await?;
            memory.leaving.insert(key, victim.metadata.uid.clone());
            let message = format!("Preempted by pod {} on node {}", pod.metadata.uid, preemption.node);
            self.writer.events().normal(&ObjectRef::of(&**victim), "Preempted", message);
        }
        Ok(())
    }
}

/// Whether the pod is deleted or changed meanwhile, which is no failure: the cache will show it.
fn is_outdated(pod: &Pod, error: &Error) -> bool {
    let past = error.is_not_found() || error.is_conflict();
    if !past {
        tracing::debug!(pod = %pod.metadata.key(), %error, "scheduler: a write failed; retrying");
    }
    past
}

/// Whether a pod is pending and for this scheduler.
fn is_ours(pod: &Pod) -> bool {
    pod.spec.node_name.is_empty()
        && pod.spec.scheduling_gates.is_empty()
        && !pod.metadata.is_deleting()
        && !pod.is_finished()
        && matches!(pod.spec.scheduler_name.as_str(), "" | super::NAME)
}

impl Memory {
    /// Whether there is nothing to do about a pod: it is bound, or unschedulable and nothing has changed that could help.
    fn has_settled(&self, pod: &Pod, room: u64) -> bool {
        let key = pod.metadata.key();
        let bound = self.assumed.get(&key).is_some_and(|(uid, _)| *uid == pod.metadata.uid);
        let now = (pod.metadata.uid.clone(), pod.metadata.resource_version, room);
        bound || self.parked.get(&key) == Some(&now)
    }

    /// A pod with our own writes applied: a preempted pod is being deleted, whatever the cache says.
    fn as_known(&self, pod: &Arc<Pod>, now: Timestamp) -> Arc<Pod> {
        let leaves = self.leaving.get(&pod.metadata.key()) == Some(&pod.metadata.uid);
        if !leaves || pod.metadata.is_deleting() {
            return Arc::clone(pod);
        }
        let mut going = Pod::clone(pod);
        going.metadata.deletion_timestamp = Some(now);
        Arc::new(going)
    }

    /// Drops the writes that the cache shows.
    fn forget(&mut self, pods: &Informer<Pod>) {
        self.leaving.retain(|key, uid| {
            pods.store().get(key).is_some_and(|pod| pod.metadata.uid == *uid && !pod.metadata.is_deleting())
        });
        let waits = |key: &Key, uid: &Uid| {
            pods.store().get(key).is_some_and(|pod| pod.metadata.uid == *uid && pod.spec.node_name.is_empty())
        };
        self.assumed.retain(|key, (uid, _)| waits(key, uid));
        self.parked.retain(|key, (uid, ..)| waits(key, uid));
    }
}
