//! The shells for claims and for volumes: read caches, and the server or the file system where needed; plan; execute.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{
    Key, Node, Object, PersistentVolume, PersistentVolumeClaim, ResourceVersion, StorageClass,
};
use flyball_cache::{Informer, Progress as _};
use flyball_common::informer_lag::Misses;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::plan::{Answer, Done};
use flyball_runtime::{Context, Executed, Next, Outcome, Reconcile, SyncError};
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
use super::results::{self, Record};
use super::triggers::{BY_CLAIM_REF, UNCLAIMED_BY_CLASS, claim_of};
use super::writes::Tag;
use super::{host_path, invariants, metrics, relay, resync, volume};
use crate::class;
use crate::names::SELECTED_NODE;
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
        let is_unbound = claim::is_unbound(&claim);
        let class = binder.class(class::of_claim(&claim));
        if class.is_some() || !is_unbound {
            binder.class_delays.forget(key);
        }
        let named_volume = binder.volumes.get(&Key::cluster(claim.spec.volume_name.as_str()));
        let classes =
            if is_unbound && class::is_unset(&claim) { binder.classes.store().list() } else { vec![] };
        let mut view = claim::View {
            claim: &claim,
            named_volume: named_volume.as_ref(),
            volumes: &if is_unbound { binder.candidates(&claim) } else { vec![] },
            class: class.as_deref(),
            is_class_cache_behind: binder.classes.version_reached() < claim.metadata.resource_version,
            has_waited_for_class: binder.class_delays.contains(key),
            default_class: class::default_of(&classes).map(|class| &class.metadata.name),
            pods: &if is_unbound { binder.unscheduled_pods(key) } else { vec![] },
            is_recent: claim.metadata.resource_version > binder.start_version(),
            provisioning: binder.provisioning(&claim),
            attributes: binder.cx.gates.enabled(Gate::VolumeAttributesClass),
        };
        if view.awaits_class() {
            binder.class_delays.insert(key);
        }
        let step = claim::step(&view);
        if let Step::Provision(provisioner) = &step {
            binder.operations.begin(key, provisioner.name(), "provision");
        }
        while let Some(need) = provision::need(&view) {
            binder.provide(&mut view.provisioning, need).await?;
        }
        binder.cx.judge(|| invariants::check(&view));
        let about = ObjectRef::of(&*claim);
        let executor = binder.cx.executor(key).about(about.clone()).events(&binder.events);
        let Executed { next, outcome, .. } = executor.run(claim::plan(&view)).await;
        if let Some(record) = results::of_claim(&view, &step, &outcome) {
            binder.record(key, &about, record);
        }
        if let Some(why) = provision::refusal(&outcome)
            && let Some(removed) = binder.discard(&claim).await?
        {
            // Events cannot fail.
            let _ = executor.perform::<Tag>(provision::after_refusal(key, why, removed)).await;
        }
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
        if let Some(claim) = volume::claim_to_sync(&view) {
            binder.claim_queue.add(claim, Priority::Change);
        }
        if let Some(volume) = reclaim::emptied(&view) {
            binder.recycler.emptied(volume, era);
        }
        let plan = volume::plan(&view);
        binder.cx.judge(|| invariants::check_volume(&view, &plan));
        let about = ObjectRef::of(&*view.volume);
        let executor = binder.cx.executor(key).about(about.clone()).events(&binder.events);
        let Executed { next, outcome, .. } = executor.run(plan).await;
        for record in results::of_volume(&view, &outcome) {
            binder.record(key, &about, record);
        }
        let outcome = match reclaim::after_failure(&view, &outcome) {
            Some(writes) => executor.perform(writes).await,
            None => outcome,
        };
        binder.finish(outcome).map(|()| next)
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
                known.volume_exists = Some(self.cx.find::<PersistentVolume>(&key).await?.is_some());
            }
            provision::Need::Directory { path, mode } => {
                let create = move || host_path::create(&path, &mode);
                known.directory = Some(self.timed("volume_provision", create).await);
            }
        }
        Ok(())
    }

    /// Removes the directory of a host path volume that the server has refused; `None` if the server has the volume after all.
    async fn discard(&self, claim: &PersistentVolumeClaim) -> Result<Option<Result<(), String>>, SyncError> {
        let volume = provision::volume_key(claim);
        if self.cx.find::<PersistentVolume>(&volume).await?.is_some() {
            return Ok(None);
        }
        let path = host_path::path_for(claim);
        let remove = move || host_path::remove(&volume.name, Some(&path));
        Ok(Some(self.timed("volume_delete", remove).await))
    }

    async fn read(&self, view: &mut volume::View, need: volume::Need) -> Result<(), SyncError> {
        match need {
            volume::Need::Claim(key) => {
                view.live_claim = Some(self.cx.find::<PersistentVolumeClaim>(&key).await?.map(Arc::new));
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
        let volume = self.cx.find::<PersistentVolume>(key).await?;
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

    /// Carries out what `results.rs` says is to be recorded. `about` is the claim or volume.
    fn record(&self, key: &Key, about: &ObjectRef, record: Record) {
        match record {
            Record::Done => self.operations.done(key),
            Record::Failed => self.operations.failed(key),
            Record::FailedAndDelayed => {
                self.operations.failed(key);
                self.operations.back_off(key);
            }
            Record::Delayed => self.operations.back_off(key),
            Record::DeletionRequested => self.operations.deletion_requested(key),
            Record::ClassSet { is_ok } => metrics::class_set(&self.cx.metrics, is_ok),
            Record::RecyclerCreated(pod, uid) => {
                let relay = relay::start(self.cx.clone(), self.events.clone(), about.clone(), pod);
                self.recycler.begin(key, uid, relay);
            }
            Record::Recycled => self.recycler.forget(key),
            Record::RecyclingFailed => self.recycler.failed(key, Instant::now()),
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
