//! The shell: look up, claim, plan, execute, write the status.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::replica_set::ReplicaSetStatus;
use flyball_api::{Key, manifest_with_status};
use flyball_cache::Informer;
use flyball_common::claim::{claim, controller_reference};
use flyball_common::gather::gather;
use flyball_common::index::{owned, owned_or_orphaned};
use flyball_common::pods::{self, PodError};
use flyball_common::slow_start::slow_start;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::metrics::Histogram;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::Replicated;
use super::ages::ratios;
use super::plan::{Action, View, plan};
use super::status::status;

/// The controller of one replicated kind.
pub(super) struct Controller<T> {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) sets: Arc<Informer<T>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) counts_terminating: bool,
    /// How old deleted pods are beside the youngest.
    pub(super) ages: Histogram,
}

impl<T: Replicated> Reconcile for Controller<T> {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(set) = self.sets.store().get(key) else { return Ok(Next::Settled) };
        let selector = match set.selector() {
            Ok(selector) => selector,
            Err(error) => {
                return Err(SyncError::other(format!("reading the selector of {key}"), error).never());
            }
        };
        let candidates = owned_or_orphaned(self.pods.store(), &key.namespace, set.uid());
        let (active, inactive): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|pod| pod.is_active());
        let active = claim(&self.cx, &*set, &selector, active, &[]).await?;
        let is_own =
            |pod: &Pod| pod.metadata.is_controlled_by(set.uid()) && selector.matches(&pod.metadata.labels);
        let terminating = || inactive.iter().filter(|pod| pod.is_terminating() && is_own(pod)).count();
        let terminating = self.counts_terminating.then(terminating);
        let family = self.family(&set);
        let now = self.cx.clock.now();
        let view = View { set: &*set, pods: &active, family: &family, now };

        let failure = self.execute(&view, plan(&view)).await;
        let told = failure.as_ref().map(|failure| failure.to_string());
        self.write_status(&set, status(&view, terminating, told.as_deref())).await?;
        match failure {
            Some(failure) => Err(failed(key, failure)),
            None => Ok(self.next(&view)),
        }
    }
}

impl<T: Replicated> Controller<T> {
    /// Carries a plan out. Deletions go side by side, creations in growing batches.
    async fn execute(&self, view: &View<'_, T>, actions: Vec<Action<'_>>) -> Option<PodError> {
        let (set, key) = (view.set, view.set.key());
        let about = ObjectRef::of(set);
        for ratio in ratios(view.pods, &actions, view.now) {
            self.ages.observe(ratio);
        }
        let mut deletions = vec![];
        for action in actions {
            match action {
                Action::Create { count } => return self.create(view, &key, &about, count).await,
                Action::Delete { pod, why } => deletions.push((pod, why)),
            }
        }
        let (have, want) = (view.pods.len(), set.replicas());
        let delete = |(pod, why)| {
            let why = format!("{have} pods, {want} wanted; this one can best be spared: {why}");
            let (key, about) = (&key, &about);
            async move { pods::delete(&self.cx, &self.events, key, about, pod, &why).await }
        };
        gather(deletions.into_iter().map(delete)).await.into_iter().find_map(Result::err)
    }

    async fn create(
        &self,
        view: &View<'_, T>,
        key: &Key,
        about: &ObjectRef,
        count: usize,
    ) -> Option<PodError> {
        let template = view.set.template()?;
        let body = pods::from_template(template, &key.name, &controller_reference(view.set));
        let why = format!("{} pods, {} wanted", view.pods.len(), view.set.replicas());
        let (body, why) = (&body, &why);
        let make = |_| async move {
            match pods::create(&self.cx, &self.events, key, about, body, why).await {
                Err(PodError::Create(error)) if pods::is_namespace_going(&error) => Ok(()),
                other => other.map(drop),
            }
        };
        slow_start(count, make).await.failure
    }

    /// The pods of all sets that have the same controller as this one; none without a controller.
    fn family(&self, set: &T) -> Vec<Arc<Pod>> {
        let Some(controller) = set.meta().controller() else { return vec![] };
        let siblings = owned(self.sets.store(), &controller.uid);
        siblings.iter().flat_map(|sibling| owned(self.pods.store(), sibling.uid())).collect()
    }

    /// Writes the status if it says anything new.
    async fn write_status(&self, set: &T, status: ReplicaSetStatus) -> Result<(), SyncError> {
        if status == *set.status() {
            return Ok(());
        }
        let key = set.key();
        let ReplicaSetStatus { replicas, ready_replicas: ready, available_replicas: available, .. } = status;
        let why = format!("{replicas} pods, {ready} ready, {available} available");
        let body = manifest_with_status(set, &status);
        let written = self.cx.writer(&key).update_status::<T>(&key, &body, why).await;
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(SyncError::api(format!("writing the status of {key}"))(error)),
        }
    }

    /// Pods that are ready but not yet for long enough become available without any further event.
    fn next(&self, view: &View<'_, T>) -> Next {
        let wait = pods::next_available(view.pods, view.set.min_ready_seconds(), view.now);
        wait.map_or(Next::Settled, Next::After)
    }
}

fn failed(key: &Key, failure: PodError) -> SyncError {
    let doing = format!("bringing {key} to its number of pods");
    match failure {
        PodError::Create(error) | PodError::Delete(error) => SyncError::api(doing)(error),
        other => SyncError::other(doing, other),
    }
}
