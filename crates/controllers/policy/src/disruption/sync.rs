//! The shells: observe, plan, execute.
//!
//! The scale of owners that are not cached, and the whole pod whose condition is removed, are live reads: both are part of
//! the views.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, PodDisruptionBudget};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_common::informer_lag::Misses;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::demand::{Demand, owners_of};
use super::invariants;
use super::owners::{Owners, Total};
use super::plan::{Problem, View, after_failure, plan};
use super::scales::Scales;
use super::selection::{budgets_selecting, pods_of};
use super::stale;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) budgets: Arc<Informer<PodDisruptionBudget>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) owners: Owners,
    pub(super) scales: Scales,
    pub(super) recheck: Queue<Key>,
    /// Budgets whose sync was delayed, as their pods may not be in the cache yet.
    pub(super) delayed: Misses<Key>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let has_waited = self.delayed.forget(key);
        let Some(budget) = self.budgets.store().get(key) else { return Ok(Next::Settled) };
        let is_cache_behind = self.pods.version_reached() < budget.metadata.resource_version;
        let (pods, scale, failure) = match pods_of(&budget, self.pods.store()) {
            Err(error) => (vec![], Err(Problem::Selector(error.to_string())), None),
            Ok(pods) => {
                let (scale, failure) = self.scale(&budget, &pods).await;
                (pods, scale, failure)
            }
        };
        let now = self.cx.clock.now();
        let scale = scale.as_ref().copied();
        let view = View { budget: &budget, pods: &pods, scale, is_cache_behind, has_waited, now };
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));

        if view.is_early() {
            self.delayed.insert(key);
        }
        let executor = self.cx.executor(key).about(ObjectRef::of(&*budget)).events(&self.events);
        let done = executor.run(plan).await;
        if let Next::After(delay) = done.next {
            self.recheck.add_after(key.clone(), delay);
        }
        if let Some(failure) = done.status.failure() {
            executor.perform(after_failure(&view, failure)).await.result()?;
        }
        done.result()?;
        let doing = || format!("reading the scale of the owners of pods of {key}");
        failure.map_or(Ok(Next::Settled), |error| Err(SyncError::api(doing())(error)))
    }
}

impl Controller {
    /// The sum of the replicas of the owners, if the budget depends on it; and the error of a failed read.
    async fn scale(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> (Result<i32, Problem>, Option<Error>) {
        if !Demand::of(&budget.spec).needs_scale() {
            return (Ok(0), None);
        }
        let namespace = &budget.metadata.namespace;
        let mut total = Total::default();
        for (owner, pod) in owners_of(pods).owners {
            let known = match self.owners.scale(namespace, owner) {
                Some(scale) => Ok(scale),
                None => self.scales.read(namespace, owner).await.known(&pod.metadata.name),
            };
            match known {
                Ok(scale) => total.add(&scale),
                Err((problem, error)) => return (Err(problem), error),
            }
        }
        (Ok(total.replicas()), None)
    }
}

/// Moves budgets back to the main queue after their delay.
pub(super) struct Recheck {
    pub(super) queue: Queue<Key>,
}

impl Reconcile for Recheck {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        self.queue.add(key.clone(), Priority::Change);
        Ok(Next::Settled)
    }
}

/// Resets stale disruption conditions of pods.
pub(super) struct PodController {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) budgets: Arc<Informer<PodDisruptionBudget>>,
}

impl Reconcile for PodController {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key) else { return Ok(Next::Settled) };
        let budgets = budgets_selecting(self.budgets.store(), &key.namespace, &pod.metadata.labels);
        let mut view = stale::View {
            pod: &pod,
            budgets: &budgets,
            whole: None,
            tracks_generation: self.cx.gates.enabled(Gate::PodObservedGenerationTracking),
            now: self.cx.clock.now(),
        };
        let whole = match stale::is_stale(&pod, view.now) {
            true => {
                let read = self.cx.whole::<Pod>(key).await;
                read.map_err(SyncError::api(format!("reading Pod {key}")))?
            }
            false => None,
        };
        view.whole = whole.as_ref();
        let plan = stale::plan(&view);
        self.cx.executor(key).about(ObjectRef::of(&*pod)).events(&self.events).execute(plan).await
    }
}
