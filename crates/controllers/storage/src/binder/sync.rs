//! The shells for claims and for volumes: read caches, and the server or the file system where needed; plan; execute.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{
    Key, Node, Object, PersistentVolume, PersistentVolumeClaim, Resource, ResourceVersion, StorageClass,
};
use flyball_cache::{Informer, Progress as _};
use flyball_client::Verb;
use flyball_common::informer_lag::{INFORMER_LAG, Misses};
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::plan::{Answer, Done};
use flyball_runtime::{Context, ErrorKinds, Next, Outcome, Reconcile, SyncError};
use parking_lot::Mutex;
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::claim::{self, Step};
use super::latest::Latest;
use super::operations::Operations;
use super::plugins::HOST_PATH;
use super::provision::{self, Provisioning};
use super::reclaim::{self, Live, RecyclerPod};
use super::recycler::Recycler;
use super::triggers::{BY_CLAIM_REF, UNCLAIMED_BY_CLASS, claim_of};
use super::writes::Tag;
use super::{host_path, invariants, metrics, relay, resync, volume};
use crate::class;
use crate::names::{BIND_COMPLETED, SELECTED_NODE};
use crate::usage::pods_of;

/// What both shells share.
pub(super) struct Binder {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) operations: Operations,
    pub(super) claims: Latest<PersistentVolumeClaim>,
    pub(super) volumes: Latest<PersistentVolume>,
    pub(super) classes: Arc<Informer<StorageClass>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) recycler: Recycler,
    pub(super) claim_queue: Queue<Key>,
    pub(super) volume_queue: Queue<Key>,
    /// The resourceVersion that the informer of claims had reached at the first sync of a claim, and the era in which it
    /// counts.
    pub(super) start_version: Mutex<Option<(u64, ResourceVersion)>>,
    /// Claims that were requeued once because their class may not be in the cache yet.
    pub(super) class_delays: Misses<Key>,
}

pub(super) struct Claims(pub(super) Arc<Binder>);

pub(super) struct Volumes(pub(super) Arc<Binder>);

impl Reconcile for Claims {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let binder = &*self.0;
        let Some(claim) = binder.claims.get(key) else {
            binder.operations.forget(key);
            binder.class_delays.forget(key);
            return Ok(Next::Settled);
        };
        let is_unbound =
            claim.spec.volume_name.is_empty() && !claim.metadata.annotations.contains_key(BIND_COMPLETED);
        let class = binder.class(class::of_claim(&claim));
        let named_volume = binder.volumes.get(&Key::cluster(claim.spec.volume_name.as_str()));
        let classes =
            if is_unbound && class::is_unset(&claim) { binder.classes.store().list() } else { vec![] };
        let mut view = claim::View {
            claim: &claim,
            named_volume: named_volume.as_ref(),
            volumes: &if is_unbound { binder.candidates(&claim) } else { vec![] },
            class: class.as_deref(),
            class_delay: binder.class_delay(&claim, class.is_some() || !is_unbound),
            default_class: class::default_of(&classes).map(|class| &class.metadata.name),
            pods: &if is_unbound { binder.unscheduled_pods(key) } else { vec![] },
            is_recent: claim.metadata.resource_version > binder.start_version(),
            provisioning: binder.provisioning(&claim),
            attributes: binder.cx.gates.enabled(Gate::VolumeAttributesClass),
        };
        let step = claim::step(&view);
        if let Step::Provision(provisioner) = &step {
            binder.operations.begin(key, provisioner.name(), "provision");
        }
        while let Some(need) = provision::need(&view) {
            binder.provide(&mut view.provisioning, need).await?;
        }
        binder.cx.judge(|| invariants::check(&view));
        let plan = claim::plan(&view);
        let next = plan.next();
        let executor = binder.cx.executor(key).about(ObjectRef::of(&*claim)).events(&binder.events);
        executor.record_waiting(plan.waiting);
        let outcome = executor.perform(plan.effects).await;
        binder.record_claim(key, &view, &step, &outcome);
        binder.finish(outcome).map(|()| next)
    }
}

impl Reconcile for Volumes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let binder = &*self.0;
        let era = binder.volumes.informer.era();
        let Some(volume) = binder.volumes.get(key) else {
            binder.operations.done(key);
            binder.recycler.forget(key);
            return Ok(Next::Settled);
        };
        let mut view = volume::View {
            cached: claim_of(&volume).and_then(|claim| binder.claims.get(&claim)),
            live_claim: None,
            class: binder.class(class::of_volume(&volume)),
            live: None,
            removed: None,
            is_deletion_requested: binder.operations.is_deletion_requested(key),
            is_backing_off: binder.operations.is_backing_off(key)
                || binder.recycler.is_backing_off(key, Instant::now()),
            volume,
        };
        loop {
            if let Some(plugin) = reclaim::deletion_plugin(&view) {
                binder.operations.begin(key, plugin, "delete");
            }
            let Some(need) = volume::need(&view) else { break };
            binder.read(&mut view, need).await?;
        }
        if volume::step(&view) == volume::Step::SyncClaim {
            let claim = claim_of(&view.volume);
            claim.into_iter().for_each(|claim| binder.claim_queue.add(claim, Priority::Change));
        }
        if let Some(volume) = reclaim::emptied(&view) {
            binder.recycler.emptied(volume, era);
        }
        let plan = volume::plan(&view);
        binder.cx.judge(|| invariants::check_volume(&view, &plan));
        let executor = binder.cx.executor(key).about(ObjectRef::of(&*view.volume)).events(&binder.events);
        executor.record_waiting(plan.waiting);
        let outcome = executor.perform(plan.effects).await;
        binder.record_volume(key, &view, &outcome);
        let outcome = match reclaim::creation_failed(&view, &outcome) {
            Some(plan) => {
                binder.recycler.refused(key, Instant::now());
                executor.perform(plan.effects).await
            }
            None => outcome,
        };
        binder.finish(outcome).map(|()| Next::Settled)
    }
}

impl Binder {
    /// For a resync: queues the claims and volumes that are not settled (`resync.rs`).
    pub(super) fn queue_unsettled(&self) {
        let (claims, volumes) =
            resync::unsettled(self.claims.informer.store(), self.volumes.informer.store());
        claims.into_iter().for_each(|claim| self.claim_queue.add(claim, Priority::Sweep));
        volumes.into_iter().for_each(|volume| self.volume_queue.add(volume, Priority::Sweep));
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.store().get(&Key::cluster(name))
    }

    fn start_version(&self) -> ResourceVersion {
        let informer = &self.claims.informer;
        // Versions of before a restore of etcd cannot be compared with those after it.
        let era = informer.era();
        let mut start_version = self.start_version.lock();
        match *start_version {
            Some((of, version)) if of == era => version,
            _ => start_version.insert((era, informer.version_reached())).1,
        }
    }

    /// The delay after which a claim is synced again because its class may not be in the cache yet. Each claim gets one.
    fn class_delay(&self, claim: &PersistentVolumeClaim, is_settled: bool) -> Option<Duration> {
        let key = claim.key();
        if is_settled {
            self.class_delays.forget(&key);
            return None;
        }
        let is_behind = self.classes.version_reached() < claim.metadata.resource_version;
        let is_due = is_behind && !class::of_claim(claim).is_empty() && self.class_delays.insert(&key);
        is_due.then_some(INFORMER_LAG)
    }

    /// The volumes whose `claimRef` names this claim, and the volumes of its class that have no `claimRef`.
    fn candidates(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<PersistentVolume>> {
        let store = self.volumes.store();
        let mut found = store.by(&BY_CLAIM_REF, &format_smolstr!("{}", claim.key()));
        found.extend(store.by(&UNCLAIMED_BY_CLASS, class::of_claim(claim)));
        found.into_iter().map(|volume| self.volumes.refreshed(volume)).collect()
    }

    /// The names of the pods that use a claim and are not scheduled.
    fn unscheduled_pods(&self, claim: &Key) -> Vec<SmolStr> {
        let pods = pods_of(self.pods.store(), claim);
        let waiting = pods.iter().filter(|pod| pod.spec.node_name.is_empty() && !pod.has_stopped());
        let mut names: Vec<SmolStr> = waiting.map(|pod| pod.metadata.name.clone()).collect();
        names.sort_unstable();
        names
    }

    fn provisioning(&self, claim: &PersistentVolumeClaim) -> Provisioning {
        let config = &self.cx.config.persistent_volume_binder_controller.volume_configuration;
        let node = claim.metadata.annotations.get(SELECTED_NODE);
        Provisioning {
            is_enabled: config.enable_dynamic_provisioning,
            is_host_path_enabled: config.enable_host_path_provisioning,
            is_backing_off: self.operations.is_backing_off(&claim.key()),
            is_node_missing: node.is_some_and(|node| self.nodes.store().get(&Key::cluster(node)).is_none()),
            volume_exists: None,
            directory: None,
        }
    }

    async fn provide(&self, known: &mut Provisioning, need: provision::Need) -> Result<(), SyncError> {
        match need {
            provision::Need::Volume(key) => {
                known.volume_exists = Some(self.get::<PersistentVolume>(&key).await?.is_some());
            }
            provision::Need::Directory { path, mode } => {
                let create = move || host_path::create(&path, &mode);
                known.directory = Some(self.timed("volume_provision", create).await);
            }
        }
        Ok(())
    }

    async fn read(&self, view: &mut volume::View, need: volume::Need) -> Result<(), SyncError> {
        match need {
            volume::Need::Claim(key) => {
                view.live_claim = Some(self.get::<PersistentVolumeClaim>(&key).await?.map(Arc::new));
            }
            volume::Need::Volume => view.live = Some(self.live(&view.volume.key()).await?),
            volume::Need::Removal(path) => {
                let name = view.volume.metadata.name.clone();
                let remove = move || host_path::remove(&name, path.as_deref());
                view.removed = Some(self.timed("volume_delete", remove).await);
            }
        }
        Ok(())
    }

    /// Reads a volume that is to be reclaimed from the server, and its claim and pods from the caches.
    async fn live(&self, key: &Key) -> Result<Live, SyncError> {
        let era = self.volumes.informer.era();
        let volume = self.get::<PersistentVolume>(key).await?;
        let claim = volume.as_ref().and_then(claim_of);
        let manifest = volume.as_ref().and_then(|volume| self.recycler.pod(volume));
        let recycler = manifest.map(|manifest| {
            let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
            let pod = Key::new(text("namespace"), text("name"));
            let found = self.pods.store().get(&pod);
            let is_emptied = volume.as_ref().is_some_and(|volume| self.recycler.is_emptied(volume, era));
            RecyclerPod { manifest, key: pod, found, created: self.recycler.created(key), is_emptied }
        });
        let pods = claim.as_ref().map(|claim| pods_of(self.pods.store(), claim)).unwrap_or_default();
        Ok(Live { volume, claim: claim.and_then(|claim| self.claims.get(&claim)), pods, recycler })
    }

    /// Reads an object from the server; `None` if it does not exist.
    async fn get<T: Resource>(&self, key: &Key) -> Result<Option<T>, SyncError> {
        match self.cx.client.get::<T>(key).await {
            Err(error) if error.is_not_found() => Ok(None),
            found => found.map(Some).map_err(SyncError::api(format!("reading {} {key}", T::TYPE.kind))),
        }
    }

    /// Runs a file system operation of the host path plugin, and records its duration and result in metrics.
    async fn timed(
        &self,
        operation: &str,
        work: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        let started = Instant::now();
        let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()));
        metrics::observe(&self.cx.metrics, HOST_PATH, operation, started.elapsed(), done.is_ok());
        done
    }

    /// Records the result of a claim's step in operations and metrics.
    fn record_claim(&self, key: &Key, view: &claim::View<'_>, step: &Step<'_>, outcome: &Outcome<Tag>) {
        match step {
            Step::Bind(_) if outcome.is_ok() => self.operations.done(key),
            Step::Bind(_) => self.operations.failed(key),
            Step::SetClass(_) => metrics::class_set(&self.cx.metrics, outcome.is_ok()),
            Step::Provision(_) if provision::failure(view).is_some() => {
                self.operations.failed(key);
                self.operations.back_off(key);
            }
            Step::Provision(_) if outcome.failure().is_some_and(|of| !of.is_one_of(ErrorKinds::CONFLICT)) => {
                self.operations.failed(key);
            }
            _ => {}
        }
    }

    /// Records the result of a volume's step in operations and in the recycler.
    fn record_volume(&self, key: &Key, view: &volume::View, outcome: &Outcome<Tag>) {
        match &view.removed {
            Some(Err(_)) => {
                self.operations.failed(key);
                self.operations.back_off(key);
            }
            // The finalizer is removed first. If that failed, the deletion was not requested.
            Some(Ok(())) if outcome.failure().is_none_or(|failure| failure.verb == Some(Verb::Delete)) => {
                self.operations.deletion_requested(key);
            }
            _ => {}
        }
        let created = outcome.done.iter().filter(|done| matches!(done.tag, Tag::Pod));
        for pod in created.filter_map(|done| done.answer.written()) {
            let (cx, events) = (self.cx.clone(), self.events.clone());
            let relay = relay::start(cx, events, ObjectRef::of(&*view.volume), pod.key());
            self.recycler.begin(key, pod.uid.clone(), relay);
        }
        if reclaim::is_recycled(view) && outcome.is_ok() {
            self.recycler.forget(key);
        }
    }

    /// Remembers the written objects: a sync from the other queue must not use an older version from the cache.
    fn finish(&self, mut outcome: Outcome<Tag>) -> Result<(), SyncError> {
        for Done { tag, answer } in outcome.done.drain(..) {
            let Answer::Written(Some(metadata)) = answer else { continue };
            match tag {
                Tag::Claim(claim) => {
                    self.claims.record(PersistentVolumeClaim { metadata: *metadata, ..*claim })
                }
                Tag::Volume(volume) => {
                    self.volumes.record(PersistentVolume { metadata: *metadata, ..*volume })
                }
                Tag::Pod | Tag::Other => {}
            }
        }
        outcome.result()
    }
}
