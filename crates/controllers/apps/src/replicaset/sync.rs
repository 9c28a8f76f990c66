//! The shell: look up, adopt and release pods, plan, execute, write the status.

use std::sync::Arc;

use flyball_api::Key;
use flyball_api::pod::Pod;
use flyball_cache::Informer;
use flyball_common::adoption::{adopt_and_release, selector_of};
use flyball_common::index::{owned, owned_or_orphaned};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::metrics::Histogram;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::Replicated;
use super::ages::ratios;
use super::invariants;
use super::plan::{View, plan};
use super::status::{self, status};

/// The controller of one replicated kind.
pub(super) struct Controller<T> {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) sets: Arc<Informer<T>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) counts_terminating: bool,
    pub(super) has_costs: bool,
    pub(super) ages: Histogram,
}

impl<T: Replicated> Reconcile for Controller<T> {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(set) = self.sets.store().get(key) else { return Ok(Next::Settled) };
        let selector = selector_of(key, set.selector())?;
        let candidates = owned_or_orphaned(self.pods.store(), &key.namespace, set.uid());
        let (active, inactive): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|pod| pod.is_active());
        let active = adopt_and_release(&self.cx, &*set, &selector, active, &[]).await?;
        let is_own =
            |pod: &Pod| pod.metadata.is_controlled_by(set.uid()) && selector.matches(&pod.metadata.labels);
        let terminating = || inactive.iter().filter(|pod| pod.is_terminating() && is_own(pod)).count();
        let terminating = self.counts_terminating.then(terminating);
        let family = self.family(&set);
        let view = View {
            set: &*set,
            pods: &active,
            family: &family,
            has_costs: self.has_costs,
            now: self.cx.clock.now(),
        };

        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        ratios(&view, &plan).into_iter().for_each(|ratio| self.ages.observe(ratio));
        let executor = self.cx.executor(key).about(ObjectRef::of(&*set)).events(&self.events);
        let done = executor.run(plan).await;
        let failure = done.outcome.failure().map(|failure| failure.message.as_str());
        let status = status(&view, terminating, failure);
        executor.perform(status::write(&*set, &status)).await.result()?;
        done.result()
    }
}

impl<T: Replicated> Controller<T> {
    /// The pods of all sets that have the same controller; empty without a controller.
    fn family(&self, set: &T) -> Vec<Arc<Pod>> {
        let Some(controller) = set.meta().controller() else { return vec![] };
        let siblings = owned(self.sets.store(), &controller.uid);
        siblings.iter().flat_map(|sibling| owned(self.pods.store(), sibling.uid())).collect()
    }
}
