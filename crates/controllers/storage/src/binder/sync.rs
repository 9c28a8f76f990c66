//! The shell: look up, plan, execute. One worker for claims and one for volumes, as each may write the other.

use std::sync::{Arc, OnceLock};

use flyball_api::pod::Pod;
use flyball_api::{
    Key, Node, Object, PersistentVolume, PersistentVolumeClaim, ResourceVersion, StorageClass,
};
use flyball_cache::Informer;
use flyball_common::moment::{MOMENT, Moments};
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use smol_str::{SmolStr, format_smolstr};

use super::claim::{self, Step, View};
use super::latest::Latest;
use super::metrics::{self, Operations};
use super::recycler::Recycler;
use super::triggers::{FREE, PROMISED, claim_of};
use super::{edit, volume};
use crate::names::{AVAILABLE, BIND_COMPLETED, BOUND, LOST, PENDING, RELEASED};
use crate::usage::pods_of;
use crate::{class, migration};

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
    /// How far the claims had come when the first was looked at.
    pub(super) began: OnceLock<ResourceVersion>,
    /// Claims whose class may be on its way.
    pub(super) moments: Moments<Key>,
}

pub(super) struct Claims(pub(super) Arc<Binder>);

pub(super) struct Volumes(pub(super) Arc<Binder>);

impl Reconcile for Claims {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        match self.0.claims.get(key) {
            Some(claim) => self.0.sync_claim(claim).await,
            None => {
                self.0.operations.forget(key);
                self.0.moments.forget(key);
                Ok(Next::Settled)
            }
        }
    }
}

impl Reconcile for Volumes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        match self.0.volumes.get(key) {
            Some(volume) => self.0.sync_volume(volume).await?,
            None => {
                self.0.operations.done(key);
                self.0.recycler.forget(key);
            }
        }
        Ok(Next::Settled)
    }
}

/// For changes that make no sense as JSON, which only a server with other types could cause.
pub(super) fn unreadable(what: &'static str) -> impl FnOnce(serde_json::Error) -> SyncError {
    move |error| SyncError::other(format!("changing a {what}"), error)
}

impl Binder {
    async fn sync_claim(&self, mut claim: Arc<PersistentVolumeClaim>) -> Result<Next, SyncError> {
        if let Some(annotations) = migration::of_claim_annotations(&claim.metadata.annotations) {
            let mut changed = PersistentVolumeClaim::clone(&claim);
            changed.metadata.annotations = annotations;
            claim = self.put_claim(&changed, "a CSI driver looks after it").await?;
        }
        let began = *self.began.get_or_init(|| self.claims.informer.version_reached());
        let key = claim.key();
        let named = claim.spec.volume_name.as_str();
        let named = (!named.is_empty()).then(|| self.volumes.get(&Key::cluster(named))).flatten();
        let is_open =
            claim.spec.volume_name.is_empty() && !claim.metadata.annotations.contains_key(BIND_COMPLETED);
        let class = self.classes.store().get(&Key::cluster(class::of_claim(&claim)));
        let classes = if is_open && class::is_unsaid(&claim) { self.classes.store().list() } else { vec![] };
        let volumes = if is_open { self.candidates(&claim) } else { vec![] };
        let config = &self.cx.config.persistent_volume_binder_controller.volume_configuration;
        let view = View {
            claim: &claim,
            named: named.as_ref(),
            volumes: &volumes,
            class: class.as_deref(),
            default_class: class::default_of(&classes).map(|class| &class.metadata.name),
            waiting: &if is_open { self.waiting(&key) } else { vec![] },
            provisions: config.enable_dynamic_provisioning,
            is_news: claim.metadata.resource_version > began,
        };
        let step = claim::plan(&view).map_err(|error| {
            SyncError::other(format!("reading the selector of claim {key}"), error).never()
        })?;
        let is_behind = || self.classes.version_reached() < claim.metadata.resource_version;
        if class.is_some() {
            self.moments.forget(&key);
        } else if matches!(step, Step::Wait(Some(_))) && is_behind() && !self.moments.had(&key) {
            return Ok(Next::After(MOMENT));
        }
        let about = ObjectRef::of(&*claim);
        match step {
            Step::Wait(tell) => tell.into_iter().for_each(|tell| self.tell(&about, tell)),
            Step::Pend(tell) => {
                tell.into_iter().for_each(|tell| self.tell(&about, tell));
                self.put_claim_status(&claim, &edit::status_without(&claim, PENDING)).await?;
            }
            Step::Lose(tell) => {
                self.put_claim_status(&claim, &edit::status_without(&claim, LOST)).await?;
                self.tell(&about, tell);
            }
            Step::Bind(volume) => {
                let bound = self.bind(claim.clone(), volume.clone()).await;
                match &bound {
                    Ok(()) => self.operations.done(&key),
                    Err(_) => self.operations.failed(&key),
                }
                bound?;
            }
            Step::Classify(class) => {
                let classed = edit::classed(&claim, &class).map_err(unreadable("claim"))?;
                let written = self.put_claim(&classed, "it gets the default class").await;
                metrics::classified(&self.cx.metrics, written.is_ok());
                written?;
            }
            Step::Provision(maker) => self.provision(claim.clone(), class.as_deref(), maker).await?,
            Step::Soon => {
                let why = "a volume that suits it is not yet available";
                return Err(SyncError::other(format!("binding claim {key}"), why).expected());
            }
            Step::Contest(tell) => {
                let why = tell.message.clone();
                self.tell(&about, tell);
                return Err(SyncError::other(format!("binding claim {key} again"), why));
            }
        }
        Ok(Next::Settled)
    }

    /// The volumes that are promised to a claim, and those of its class that are nobody's.
    fn candidates(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<PersistentVolume>> {
        let store = self.volumes.informer.store();
        let mut found = store.by(&PROMISED, &format_smolstr!("{}", claim.key()));
        found.extend(store.by(&FREE, class::of_claim(claim)));
        found.into_iter().map(|volume| self.volumes.refreshed(volume)).collect()
    }

    /// The pods that use a claim and wait for a node, by name.
    fn waiting(&self, claim: &Key) -> Vec<SmolStr> {
        let pods = pods_of(self.pods.store(), claim);
        let waiting = pods.iter().filter(|pod| pod.spec.node_name.is_empty() && !pod.has_stopped());
        let mut names: Vec<SmolStr> = waiting.map(|pod| pod.metadata.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Binds a volume and a claim to each other, the volume first; what is written already is left alone.
    async fn bind(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        volume: Arc<PersistentVolume>,
    ) -> Result<(), SyncError> {
        let key = claim.key();
        let volume = match edit::taken(&volume, &claim).map_err(unreadable("volume"))? {
            Some(taken) => self.put_volume(&key, &taken, "a claim gets it").await?,
            None => volume,
        };
        let volume = self.put_phase(&key, volume, BOUND, "").await?;
        let claim = match edit::given(&claim, &volume).map_err(unreadable("claim"))? {
            Some(given) => self.put_claim(&given, "it gets a volume").await?,
            None => claim,
        };
        self.put_claim_status(&claim, &edit::status_with(&claim, &volume)).await.map(drop)
    }

    async fn sync_volume(&self, mut volume: Arc<PersistentVolume>) -> Result<(), SyncError> {
        let key = volume.key();
        if let Some(metadata) = migration::of_volume_metadata(&volume) {
            let changed = PersistentVolume { metadata, ..PersistentVolume::clone(&volume) };
            volume = self.put_volume(&key, &changed, "who looks after it has changed").await?;
        }
        let claim = self.claim_of(&volume).await?;
        match volume::plan(&volume, claim.as_deref()) {
            volume::Step::Be(phase) => self.put_phase(&key, volume, phase, "").await.map(drop)?,
            volume::Step::AskClaim => {
                let claim = claim_of(&volume);
                claim.into_iter().for_each(|claim| self.claim_queue.add(claim, Priority::Change));
            }
            volume::Step::Mismatch { volume: to_volume, claim: to_claim } => {
                self.tell(&ObjectRef::of(&*volume), to_volume);
                claim.iter().for_each(|claim| self.tell(&ObjectRef::of(&**claim), to_claim.clone()));
            }
            volume::Step::Free => self.free(&key, &volume).await?,
            volume::Step::Reclaim => {
                if !volume::is_released(&volume) {
                    volume = self.put_phase(&key, volume, RELEASED, "").await?;
                }
                self.reclaim(&key, volume).await?;
            }
        }
        Ok(())
    }

    /// The claim that a volume refers to, if it exists. That it does not is believed only once the server says so, while
    /// that would be news.
    async fn claim_of(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, SyncError> {
        let reference = volume.spec.claim_ref.as_ref().filter(|_| volume::refers_to_one(volume));
        let (Some(reference), Some(key)) = (reference, claim_of(volume)) else { return Ok(None) };
        let is_meant = |claim: &PersistentVolumeClaim| claim.metadata.uid == reference.uid;
        let cached = self.claims.get(&key);
        if cached.is_none() && volume::is_released(volume) {
            return Ok(None);
        }
        match cached.filter(|claim| is_meant(claim)) {
            Some(claim) => Ok(Some(claim)),
            None => match self.cx.client.get::<PersistentVolumeClaim>(&key).await {
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(SyncError::api(format!("reading claim {key}"))(error)),
                Ok(claim) => Ok(Some(Arc::new(claim)).filter(|claim| is_meant(claim))),
            },
        }
    }

    /// Takes a volume back from its claim.
    pub(super) async fn free(&self, key: &Key, volume: &PersistentVolume) -> Result<(), SyncError> {
        let freed = edit::freed(volume).map_err(unreadable("volume"))?;
        let volume = self.put_volume(key, &freed, "no claim has it any more").await?;
        self.put_phase(key, volume, AVAILABLE, "").await.map(drop)
    }
}
