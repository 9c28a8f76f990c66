//! The shell for budgets: look up, ask for scales, count, write the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::pod_disruption_budget::PodDisruptionBudgetStatus;
use flyball_api::{Key, Object, PodDisruptionBudget, manifest_with_status};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_common::moment::Moments;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};

use super::demand::{Demand, Quota, answerable};
use super::invariants;
use super::owners::Owners;
use super::plan::{View, came_after, count};
use super::scales::{Scales, Unknown};
use super::selection::pods_of;
use super::status::{fail_safe, status};
use super::wording;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) budgets: Arc<Informer<PodDisruptionBudget>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) owners: Owners,
    pub(super) scales: Scales,
    pub(super) recheck: Queue<Key>,
    /// Budgets that found no pods and were given a moment.
    pub(super) moments: Moments<Key>,
}

/// How long pods that came before their budget may take to show in the cache after it. Less than for others who miss
/// something: evictions wait for the budget's first word.
const MOMENT: Duration = Duration::from_millis(20);

/// Why a budget cannot be judged.
struct Unjudged {
    /// In the words of the condition.
    problem: String,
    /// What failed on the way to the server, if that was it: worth another try.
    failure: Option<Error>,
    /// What was found may be out of date: look again after this long.
    look_again: Option<Duration>,
}

impl Unjudged {
    fn for_good(problem: impl ToString) -> Self {
        Self { problem: problem.to_string(), failure: None, look_again: None }
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let has_waited = self.moments.forget(key);
        let Some(budget) = self.budgets.store().get(key) else { return Ok(Next::Settled) };
        if !has_waited && self.may_be_early(&budget) && !self.moments.had(key) {
            self.recheck.add_after(key.clone(), MOMENT);
            return Ok(Next::Settled);
        }
        match self.judge(&budget, has_waited).await {
            Ok(status) => self.write_judgement(&budget, status).await?,
            Err(unjudged) => self.refuse(&budget, unjudged).await?,
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// Caches of different kinds are not in step: a new budget may be seen before the pods that it was made for. One
    /// that finds none waits a moment, once, unless the cache of pods is as new as it is.
    fn may_be_early(&self, budget: &PodDisruptionBudget) -> bool {
        let is_new = budget.status.observed_generation == 0;
        let is_ahead = self.pods.version_reached() < budget.metadata.resource_version;
        is_new && is_ahead && pods_of(budget, self.pods.store()).is_ok_and(|pods| pods.is_empty())
    }

    /// The status that the budget should have; none if it has it.
    async fn judge(
        &self,
        budget: &PodDisruptionBudget,
        has_waited: bool,
    ) -> Result<Option<PodDisruptionBudgetStatus>, Unjudged> {
        let about = ObjectRef::of(budget);
        let pods = pods_of(budget, self.pods.store()).map_err(|error| {
            self.events.warning(&about, "NoPods", format!("Failed to get pods: {error}"));
            Unjudged::for_good(error)
        })?;
        // Those that came while it waited do not count: it was there first.
        if pods.is_empty() || (has_waited && pods.iter().all(|pod| came_after(pod, budget))) {
            self.events.normal(&about, "NoPods", "No matching pods found");
        }
        let quota = self.quota(budget, &pods).await.inspect_err(|Unjudged { problem, .. }| {
            let message = format!("Failed to calculate the number of expected pods: {problem}");
            self.events.warning(&about, "CalculateExpectedPodCountFailed", message);
        })?;
        let view = View { budget, pods: &pods, now: self.cx.clock.now() };
        let census = count(&view);
        for pod in &census.overdue {
            self.events.warning(&ObjectRef::of(*pod), "NotDeleted", wording::not_deleted(pod));
        }
        if let Some(due) = census.recheck {
            self.recheck.add_after(budget.key(), self.cx.clock.until(due));
        }
        let status = status(&view, &census, quota);
        if let Some(status) = &status {
            self.cx.judge(|| invariants::check(&view, quota, status));
        }
        Ok(status)
    }

    /// How many pods there should be, by the word of their owners if the budget depends on it.
    async fn quota(&self, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> Result<Quota, Unjudged> {
        let demand = Demand::of(&budget.spec);
        if !demand.needs_scale() {
            return demand.quota(pods.len(), 0).map_err(Unjudged::for_good);
        }
        let answerable = answerable(pods);
        let mut scales = BTreeMap::new();
        for (owner, pod) in answerable.owners {
            let namespace = &budget.metadata.namespace;
            if let Some(scale) = self.owners.scale(namespace, owner) {
                scales.insert(scale.uid.to_smol_str(), scale.replicas);
                continue;
            }
            let answer = self.scales.ask(namespace, owner).await;
            let look_again = answer.ask_again;
            match answer.scale {
                Ok(Some(scale)) => scales.insert(scale.uid.to_smol_str(), scale.replicas),
                Ok(None) => {
                    let problem = format!("found no controllers for pod {:?}", pod.metadata.name);
                    return Err(Unjudged { problem, failure: None, look_again });
                }
                Err(Unknown::Api(error)) => {
                    let problem = Chain(&error).to_string();
                    return Err(Unjudged { problem, failure: Some(error), look_again });
                }
                Err(unknown) => {
                    return Err(Unjudged { problem: unknown.to_string(), failure: None, look_again });
                }
            };
        }
        if !answerable.unmanaged.is_empty() {
            let message = wording::unmanaged(budget.spec.selector.as_ref());
            self.events.warning(&ObjectRef::of(budget), "UnmanagedPods", message);
        }
        let scale = scales.values().fold(0_i32, |sum, replicas| sum.saturating_add(*replicas));
        demand.quota(pods.len(), scale).map_err(Unjudged::for_good)
    }

    async fn write_judgement(
        &self,
        budget: &PodDisruptionBudget,
        status: Option<PodDisruptionBudgetStatus>,
    ) -> Result<(), SyncError> {
        let Some(status) = status else { return Ok(()) };
        let PodDisruptionBudgetStatus { current_healthy, desired_healthy, disruptions_allowed, .. } = status;
        let why =
            format!("{current_healthy} healthy, {desired_healthy} wanted: {disruptions_allowed} may go");
        let Err(error) = self.write(budget, &status, why).await else { return Ok(()) };
        // What was seen was out of date, or the answer was lost: nothing is known to be wrong.
        if !error.is_conflict() && !error.outcome_unknown() {
            let problem = Chain(&error).to_string();
            let unjudged = Unjudged { problem, failure: None, look_again: None };
            self.refuse(budget, unjudged).await?;
        }
        Err(SyncError::api(format!("writing the status of {}", budget.key()))(error))
    }

    /// Lets nobody go from a budget that cannot be judged, and says why.
    async fn refuse(&self, budget: &PodDisruptionBudget, unjudged: Unjudged) -> Result<(), SyncError> {
        let Unjudged { problem, failure, look_again } = unjudged;
        let key = budget.key();
        tracing::debug!(budget = %key, problem, "cannot be judged");
        if let Some(status) = fail_safe(budget, &problem, self.cx.clock.now()) {
            let why = format!("it cannot be judged, so nobody may go: {problem}");
            let doing = format!("allowing no disruption by {key}");
            self.write(budget, &status, why).await.map_err(SyncError::api(doing))?;
        }
        if let Some(delay) = look_again {
            self.recheck.add_after(key.clone(), delay);
        }
        failure.map_or(Ok(()), |error| {
            Err(SyncError::api(format!("finding out how many pods {key} should have"))(error))
        })
    }

    async fn write(
        &self,
        budget: &PodDisruptionBudget,
        status: &PodDisruptionBudgetStatus,
        why: String,
    ) -> Result<(), Error> {
        let (key, body) = (budget.key(), manifest_with_status(budget, status));
        match self.cx.writer(&key).update_status::<PodDisruptionBudget>(&key, &body, why).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Hands budgets back once the time they waited for has come.
pub(super) struct Recheck {
    pub(super) queue: Queue<Key>,
}

impl Reconcile for Recheck {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        self.queue.add(key.clone(), Priority::Change);
        Ok(Next::Settled)
    }
}
