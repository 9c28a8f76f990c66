//! The shell: look up, plan, make and record claims, reserve them, give them back.

use std::sync::Arc;

use flyball_api::pod::{Pod, PodResourceClaim};
use flyball_api::resource_claim::ConsumerReference;
use flyball_api::{
    Key, Object, PartialObject, PodGroup, Resource, ResourceClaim, ResourceClaimTemplate, Uid,
    manifest_with_status,
};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_common::index::owned;
use flyball_common::moment::{MOMENT, Moments};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError, exactly};
use parking_lot::Mutex;
use serde_json::Value;
use smol_str::SmolStr;

use super::consumer::{Consumer, Kind, binds_to, is_done, owning_pod, reserved_for};
use super::memory::{Gone, Made};
use super::plan::{
    ENTRY, Gates, Known, Need, needs_work, of_group, of_pod, record, reservations, wants_admin_access,
};
use super::triggers::Work;
use super::upkeep::{FINALIZER, Upkeep, upkeep};
use super::{FIELD_MANAGER, numbers};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) groups: Option<Arc<Informer<PodGroup>>>,
    pub(super) claims: Arc<Informer<ResourceClaim>>,
    pub(super) templates: Arc<Informer<ResourceClaimTemplate>>,
    pub(super) gates: Gates,
    pub(super) made: Mutex<Made>,
    pub(super) gone: Arc<Mutex<Gone>>,
    /// Pods whose templates may be on their way.
    pub(super) moments: Moments<Key>,
}

impl Known for Controller {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        self.claims.store().get(&Key::new(namespace, name))
    }

    fn made_for(&self, consumer: &Consumer<'_>, entry: &str) -> Option<SmolStr> {
        let own = owned(self.claims.store(), &consumer.meta.uid);
        let mut names: Vec<_> = own
            .iter()
            .filter(|claim| claim.metadata.annotations.get(ENTRY) == Some(entry))
            .map(|claim| claim.metadata.name.clone())
            .collect();
        names.sort_unstable();
        names.into_iter().next().or_else(|| self.made.lock().find(&consumer.meta.uid, entry))
    }

    fn template(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaimTemplate>> {
        self.templates.store().get(&Key::new(namespace, name))
    }
}

impl Reconcile<Work> for Controller {
    async fn sync(&self, work: &Work) -> Result<Next, SyncError> {
        match work {
            Work::Pod(key) => self.sync_pod(key).await,
            Work::Group(key) => self.sync_group(key).await.map(|()| Next::Settled),
            Work::Claim(key) => self.sync_claim(key).await.map(|()| Next::Settled),
        }
    }
}

impl Controller {
    async fn sync_pod(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key).filter(|pod| !pod.is_deleting()) else {
            self.moments.forget(key);
            return Ok(Next::Settled);
        };
        let group = self.group_of(&pod)?;
        if !needs_work(&pod, group.as_deref(), self, self.gates.groups) {
            self.moments.forget(key);
            return Ok(Next::Settled);
        }
        let consumer = Consumer::from(&*pod);
        let need = |entry: &PodResourceClaim| of_pod(&pod, group.as_deref(), entry, self, self.gates);
        let is_behind = || self.templates.version_reached() < pod.metadata.resource_version;
        let is_short = consumer.entries.iter().any(|entry| need(entry).is_err());
        if is_short && is_behind() && !self.moments.had(key) {
            return Ok(Next::After(MOMENT));
        }
        self.provide::<Pod>(&consumer, ObjectRef::of(&*pod), need).await?;
        let wanted = reservations(&pod, self, self.gates.groups)
            .map_err(|problem| SyncError::other(format!("reserving claims for pod {key}"), problem))?;
        for (entry, claim) in wanted {
            let user = binds_to(&pod, group.as_deref(), &entry).reference();
            self.reserve(key, &claim, user).await?;
        }
        Ok(Next::Settled)
    }

    async fn sync_group(&self, key: &Key) -> Result<(), SyncError> {
        let found = self.groups.as_ref().and_then(|groups| groups.store().get(key));
        let Some(group) = found.filter(|group| !group.is_deleting()) else { return Ok(()) };
        let consumer = Consumer::from(&*group);
        let need = |entry: &PodResourceClaim| of_group(&group, entry, self, self.gates);
        self.provide::<PodGroup>(&consumer, ObjectRef::of(&*group), need).await
    }

    /// The group that a pod names, if groups count.
    fn group_of(&self, pod: &Pod) -> Result<Option<Arc<PodGroup>>, SyncError> {
        let name = &pod.spec.rare().pod_group_name;
        let Some(groups) = self.groups.as_ref().filter(|_| !name.is_empty()) else { return Ok(None) };
        let found = groups.store().get(&Key::new(pod.metadata.namespace.as_str(), name.as_str()));
        found.map(Some).ok_or_else(|| {
            let problem = format!("podgroup.scheduling.k8s.io {name:?} not found");
            SyncError::other(format!("get PodGroup for Pod {}", pod.key()), problem).expected()
        })
    }

    /// Makes the claims that a consumer needs, and records them in its status.
    async fn provide<T: Resource>(
        &self,
        consumer: &Consumer<'_>,
        about: ObjectRef,
        need: impl Fn(&PodResourceClaim) -> Result<Need, String>,
    ) -> Result<(), SyncError> {
        let key = consumer.meta.key();
        let mut recorded = vec![];
        for entry in consumer.entries {
            let claim = match need(entry) {
                Ok(Need::Nothing) => continue,
                Ok(Need::Record(name)) => Ok(name),
                Ok(Need::Make(claim)) => self.make(consumer, &entry.name, &claim).await,
                Err(problem) => Err(problem),
            };
            let claim = claim.map_err(|problem| {
                let told = format!("{} {}: {problem}", consumer.kind.entry(), entry.name);
                self.events.warning(&about, "FailedResourceClaimCreation", told);
                SyncError::other(format!("providing for entry {} of {key}", entry.name), problem)
            })?;
            recorded.push((entry.name.clone(), claim));
        }
        if recorded.is_empty() {
            return Ok(());
        }
        let object = record(consumer, &recorded);
        let patch = Patch::Apply { manager: FIELD_MANAGER.into(), force: true, object };
        let why = "it can tell by its status which claims were made for it";
        let writer = self.cx.writer(&key);
        let written = writer.patch_dynamic::<PartialObject>(&T::TYPE, &key, Some("status"), patch, why).await;
        unless_gone(written, || format!("recording the claims of {key}")).map(drop)
    }

    async fn make(&self, consumer: &Consumer<'_>, entry: &str, claim: &Value) -> Result<SmolStr, String> {
        let (key, is_admin) = (consumer.meta.key(), wants_admin_access(&claim["spec"]));
        let why = "it asks for devices by a template";
        let created = self.cx.writer(&key).create::<ResourceClaim>(&key.namespace, claim, why).await;
        numbers::created(&self.cx.metrics, created.is_ok(), is_admin);
        // Upstream: the name of a claim that was not made is not known, and yet has its place in the message.
        let claim = created.map_err(|error| format!("create ResourceClaim : {}", Chain(&error)))?;
        self.made.lock().add(consumer.meta.uid.clone(), entry, &claim.metadata.name);
        Ok(claim.metadata.name)
    }

    async fn reserve(
        &self,
        pod: &Key,
        claim: &ResourceClaim,
        user: ConsumerReference,
    ) -> Result<(), SyncError> {
        let (key, mut status) = (claim.key(), claim.status.clone());
        let why = format!("{} {} uses it, and was not placed by the scheduler", user.resource, user.name);
        status.reserved_for.push(user);
        let body = manifest_with_status(claim, &status);
        let written = self.cx.writer(pod).update_status::<ResourceClaim>(&key, &body, why).await;
        unless_gone(written, || format!("reserving claim {key} for pod {pod}")).map(drop)
    }

    async fn sync_claim(&self, key: &Key) -> Result<(), SyncError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(()) };
        let mut remaining = vec![];
        for user in &claim.status.reserved_for {
            let doing =
                || format!("finding out whether {} {} still uses claim {key}", user.resource, user.name);
            if self.is_in_use(&key.namespace, user).await.map_err(|error| SyncError::api(doing())(error))? {
                remaining.push(user.clone());
            }
        }
        let Upkeep { status, unprotect, delete } = upkeep(&claim, remaining, self.is_owner_done(&claim));
        let writer = self.cx.writer(key);
        let mut current = (*claim).clone();
        if let Some(status) = status {
            let body = manifest_with_status(&*claim, &status);
            let why = "those who used it are gone";
            let written = writer.update::<ResourceClaim>(key, Some("status"), &body, why).await;
            let Some(claim) = unless_gone(written, || format!("giving back claim {key}"))? else {
                return Ok(());
            };
            current = claim;
        }
        if unprotect {
            let kept = current.metadata.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER);
            current.metadata.finalizers = kept.cloned().collect();
            let written = writer.update_whole(&current, "its devices were given back").await;
            unless_gone(written, || format!("letting go of claim {key}"))?;
        }
        if delete {
            let why = "the pod that it was made for has ended";
            let deleted = writer.delete::<ResourceClaim>(key, exactly(&claim.metadata), why).await;
            unless_gone(deleted, || format!("deleting claim {key}"))?;
        }
        Ok(())
    }

    /// Whether a user of a claim is there and may use it. One that the cache lacks may be new, so the server is asked.
    async fn is_in_use(&self, namespace: &str, user: &ConsumerReference) -> Result<bool, Error> {
        let key = Key::new(namespace, user.name.as_str());
        match (reserved_for(user), &self.groups) {
            (Some(_), _) if self.gone.lock().has(&user.uid) => Ok(false),
            (Some(Kind::Pod), _) => match self.pods.store().get(&key) {
                Some(pod) => Ok(*pod.uid() == user.uid && !is_done(&pod)),
                None => self.is_served::<Pod>(&key, &user.uid).await,
            },
            (Some(Kind::Group), Some(groups)) => match groups.store().get(&key) {
                Some(group) => Ok(*group.uid() == user.uid),
                None => self.is_served::<PodGroup>(&key, &user.uid).await,
            },
            // Nobody here knows about such users.
            _ => Ok(true),
        }
    }

    async fn is_served<T: Resource>(&self, key: &Key, uid: &Uid) -> Result<bool, Error> {
        match self.cx.client.get::<T>(key).await {
            Ok(found) => Ok(found.uid() == uid),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the pod that a claim was made for has ended, or was replaced. One that the cache lacks may be new; if it is
    /// gone, the garbage collector takes the claim.
    fn is_owner_done(&self, claim: &ResourceClaim) -> bool {
        let Some(owner) = owning_pod(claim) else { return false };
        let pod = self.pods.store().get(&Key::new(claim.metadata.namespace.as_str(), owner.name.as_str()));
        pod.is_some_and(|pod| *pod.uid() != owner.uid || is_done(&pod))
    }
}

/// What was written; nothing if its object is gone, which is no failure.
fn unless_gone<T>(written: Result<T, Error>, doing: impl FnOnce() -> String) -> Result<Option<T>, SyncError> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(SyncError::api(doing())(error)),
    }
}
