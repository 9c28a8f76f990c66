//! The shell: look up, plan, execute. Whether a consumer that the cache lacks exists is read from the server.

use std::sync::Arc;

use flyball_api::pod::{Pod, PodResourceClaim};
use flyball_api::resource_claim::ConsumerReference;
use flyball_api::{Key, Object, PodGroup, Resource, ResourceClaim, ResourceClaimTemplate, Uid};
use flyball_cache::{Informer, Progress};
use flyball_common::index::owned;
use flyball_common::informer_lag::{INFORMER_LAG, Misses};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::plan::Answer;
use flyball_runtime::{Context, Effect, Executed, Executor, Next, Outcome, Reconcile, SyncError};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::consumer::{Consumer, Found, Kind, Use, is_owner_done, owning_pod, reserved_for};
use super::invariants;
use super::memory::{Deleted, Generated, UntilRestore};
use super::metrics;
use super::plan::{
    Creation, ENTRY, EntryNeed, Gates, Known, after, group_need, may_lag, needs_work, plan, pod_need, reserve,
};
use super::release::{self, release};
use super::triggers::Work;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) groups: Option<Arc<Informer<PodGroup>>>,
    pub(super) claims: Arc<Informer<ResourceClaim>>,
    pub(super) templates: Arc<Informer<ResourceClaimTemplate>>,
    pub(super) gates: Gates,
    pub(super) generated: Arc<Mutex<UntilRestore<Generated>>>,
    pub(super) deleted: Arc<Mutex<UntilRestore<Deleted>>>,
    /// Pods that were requeued once because the informer of the templates may lag.
    pub(super) misses: Misses<Key>,
}

impl Known for Controller {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        self.claims.store().get(&Key::new(namespace, name))
    }

    fn generated_for(&self, consumer: &Consumer<'_>, entry: &str) -> Option<SmolStr> {
        let own = owned(self.claims.store(), &consumer.meta.uid);
        let mut names: Vec<_> = own
            .iter()
            .filter(|claim| claim.metadata.annotations.get(ENTRY) == Some(entry))
            .map(|claim| claim.metadata.name.clone())
            .collect();
        names.sort_unstable();
        let has_passed =
            |version, list| self.claims.version_reached() >= version || self.claims.has_listed(list);
        let remembered = || {
            let mut generated = self.generated.lock();
            generated.in_era(self.cx.informers.era()).find(&consumer.meta.uid, entry, has_passed)
        };
        names.into_iter().next().or_else(remembered)
    }

    fn template(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaimTemplate>> {
        self.templates.store().get(&Key::new(namespace, name))
    }
}

impl Reconcile<Work> for Controller {
    async fn sync(&self, work: &Work) -> Result<Next, SyncError> {
        match work {
            Work::Pod(key) => self.sync_pod(key).await,
            Work::Group(key) => self.sync_group(key).await,
            Work::Claim(key) => self.sync_claim(key).await,
        }
    }
}

impl Controller {
    async fn sync_pod(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key).filter(|pod| !pod.is_deleting()) else {
            self.misses.forget(key);
            return Ok(Next::Settled);
        };
        let group = self.group_of(&pod)?;
        let group = group.as_deref();
        if !needs_work(&pod, group, self, self.gates.groups) {
            self.misses.forget(key);
            return Ok(Next::Settled);
        }
        let consumer = Consumer::from(&*pod);
        let need = |entry: &PodResourceClaim| pod_need(&pod, group, entry, self, self.gates);
        let needs: Vec<EntryNeed> =
            consumer.entries.iter().map(|entry| (entry.name.clone(), need(entry))).collect();
        if may_lag(&needs, self.templates.version_reached(), &pod) && self.misses.insert(key) {
            return Ok(Next::After(INFORMER_LAG));
        }
        let reservations = reserve(&pod, group, self, self.gates.groups);
        let executor = self.cx.executor(key).about(ObjectRef::of(&*pod)).events(&self.events);
        self.provide(&executor, &consumer, &needs, reservations).await
    }

    async fn sync_group(&self, key: &Key) -> Result<Next, SyncError> {
        let found = self.groups.as_ref().and_then(|groups| groups.store().get(key));
        let Some(group) = found.filter(|group| !group.is_deleting()) else { return Ok(Next::Settled) };
        let consumer = Consumer::from(&*group);
        let need = |entry: &PodResourceClaim| group_need(&group, entry, self, self.gates);
        let needs: Vec<EntryNeed> =
            consumer.entries.iter().map(|entry| (entry.name.clone(), need(entry))).collect();
        let executor = self.cx.executor(key).about(ObjectRef::of(&*group)).events(&self.events);
        self.provide(&executor, &consumer, &needs, vec![]).await
    }

    /// The group of a pod, if the gate is on.
    fn group_of(&self, pod: &Pod) -> Result<Option<Arc<PodGroup>>, SyncError> {
        let name = &pod.spec.rare().pod_group_name;
        let Some(groups) = self.groups.as_ref().filter(|_| !name.is_empty()) else { return Ok(None) };
        let found = groups.store().get(&Key::new(pod.metadata.namespace.as_str(), name.as_str()));
        found.map(Some).ok_or_else(|| {
            let problem = format!("podgroup.scheduling.k8s.io {name:?} not found");
            SyncError::other(format!("get PodGroup for Pod {}", pod.key()), problem).expected()
        })
    }

    /// Creates the ResourceClaims that a consumer needs, records them in its status, and reserves them.
    async fn provide(
        &self,
        executor: &Executor<'_>,
        consumer: &Consumer<'_>,
        needs: &[EntryNeed],
        reservations: Vec<Effect>,
    ) -> Result<Next, SyncError> {
        let plan = plan(consumer, needs);
        self.cx.judge(|| invariants::check_creations(consumer, &plan));
        let done = executor.run(plan).await;
        self.record_creations(consumer, &done.outcome);
        let recorded = after(consumer, needs, &done.outcome);
        let next = done.result()?;
        let rest = recorded.map(Effect::from).into_iter().chain(reservations);
        executor.perform(rest).await.result().map(|()| next)
    }

    fn record_creations(&self, consumer: &Consumer<'_>, outcome: &Outcome<Creation>) {
        for done in &outcome.done {
            metrics::created(&self.cx.metrics, true, done.tag.admin_access);
            if let Some(claim) = done.answer.written() {
                let mut generated = self.generated.lock();
                let generated = generated.in_era(self.cx.informers.era());
                // After locking: what the cache shows from now on is reported by the trigger.
                let held = self.claims.holds(&claim.key());
                let is_shown = held.is_some_and(|(uid, ..)| uid == claim.uid);
                let list = self.claims.next_list();
                generated.add(consumer.meta.uid.clone(), &done.tag.entry, claim, list, is_shown);
            }
        }
        for tag in outcome.failures.iter().filter_map(|failure| failure.tag.as_ref()) {
            metrics::created(&self.cx.metrics, false, tag.admin_access);
        }
    }

    async fn sync_claim(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Next::Settled) };
        let remaining = self.remaining_consumers(key, &claim).await?;
        let release = release(&claim, remaining.clone(), self.is_owner_done(&claim));
        self.cx.judge(|| invariants::check_release(&claim, &remaining, &release));
        let executor = self.cx.executor(key);
        let Executed { next, outcome, .. } = executor.run(release::plan(&claim, &release)).await;
        match outcome.answer()? {
            Answer::Ignored(_) => Ok(next),
            Answer::Written(metadata) => {
                let rest = release::after(&claim, &release, metadata.as_deref());
                executor.perform(rest).await.result().map(|()| next)
            }
        }
    }

    async fn remaining_consumers(
        &self,
        key: &Key,
        claim: &ResourceClaim,
    ) -> Result<Vec<ConsumerReference>, SyncError> {
        let mut remaining = vec![];
        for consumer in &claim.status.reserved_for {
            if self.is_in_use(&key.namespace, consumer).await? {
                remaining.push(consumer.clone());
            }
        }
        Ok(remaining)
    }

    /// Whether a consumer exists and has not ended.
    async fn is_in_use(&self, namespace: &str, consumer: &ConsumerReference) -> Result<bool, SyncError> {
        let (key, uid) = (Key::new(namespace, consumer.name.as_str()), &consumer.uid);
        match self.known_use(&key, consumer) {
            Use::Yes => Ok(true),
            Use::No => Ok(false),
            Use::IfItExists(Kind::Pod) => self.exists::<Pod>(&key, uid).await,
            Use::IfItExists(Kind::Group) => self.exists::<PodGroup>(&key, uid).await,
        }
    }

    /// What the caches say about it.
    fn known_use(&self, key: &Key, consumer: &ConsumerReference) -> Use {
        let is_deleted = || self.deleted.lock().in_era(self.cx.informers.era()).has(&consumer.uid);
        let (pod, group);
        let found = match (reserved_for(consumer), &self.groups) {
            (Some(_), _) if is_deleted() => Found::Deleted,
            (Some(Kind::Pod), _) => {
                pod = self.pods.store().get(key);
                Found::Pod(pod.as_deref())
            }
            (Some(Kind::Group), Some(groups)) => {
                group = groups.store().get(key);
                Found::Group(group.as_deref())
            }
            _ => Found::Unwatched,
        };
        Use::of(&consumer.uid, found)
    }

    async fn exists<T: Resource>(&self, key: &Key, uid: &Uid) -> Result<bool, SyncError> {
        Ok(self.cx.find::<T>(key).await?.is_some_and(|found| found.uid() == uid))
    }

    fn is_owner_done(&self, claim: &ResourceClaim) -> bool {
        let Some(owner) = owning_pod(claim) else { return false };
        let pod = self.pods.store().get(&Key::new(claim.metadata.namespace.as_str(), owner.name.as_str()));
        let had_ended = self.deleted.lock().in_era(self.cx.informers.era()).was_done(&owner.uid);
        is_owner_done(owner, pod.as_deref(), had_ended)
    }
}
