//! The shell: look up, adopt and release ReplicaSets, decide, plan, execute, write the status.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Deployment, Key, Object, ReplicaSet, Selector};
use flyball_cache::Informer;
use flyball_common::adoption::{adopt_and_release, selector_of};
use flyball_common::index::{owned, owned_or_orphaned};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, Executed, Executor, Next, Reconcile, SyncError};

use super::after;
use super::decision::{Decision, View, decide};
use super::invariants;
use super::limits::Limits;
use super::plan::{plan, refusal, while_adopting};
use super::status;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) deployments: Arc<Informer<Deployment>>,
    pub(super) sets: Arc<Informer<ReplicaSet>>,
    pub(super) pods: Arc<Informer<Pod>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(deployment) = self.deployments.store().get(key) else { return Ok(Next::Settled) };
        let deployment = &*deployment;
        let executor = self.cx.executor(key).about(ObjectRef::of(deployment)).events(&self.events);
        let selector = selector_of(key, Selector::from_object(deployment.spec.selector.as_ref()))?;
        if let Some(plan) = refusal(deployment, &selector) {
            return executor.execute(plan).await;
        }
        let limits = Limits::of(&deployment.spec)
            .map_err(|error| SyncError::other(format!("reading the strategy of {key}"), error).never())?;
        let candidates = owned_or_orphaned(self.sets.store(), &key.namespace, deployment.uid());
        let sets = adopt_and_release(&self.cx, deployment, &selector, candidates, &[]).await?;
        let pods: Vec<_> = match limits.is_rolling() {
            true => vec![],
            false => sets.iter().flat_map(|set| owned(self.pods.store(), set.uid())).collect(),
        };
        let view = View {
            deployment,
            limits,
            sets: &sets,
            pods: &pods,
            counts_terminating: self.cx.gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas),
            now: self.cx.clock.now(),
        };
        let decision = decide(&view);
        self.cx.judge(|| invariants::check(&view, &decision));
        if let Some(plan) = while_adopting(&view, &decision) {
            return executor.execute(plan).await;
        }
        self.carry_out(&executor, &view, &decision).await
    }
}

impl Controller {
    async fn carry_out(
        &self,
        executor: &Executor<'_>,
        view: &View<'_>,
        decision: &Decision<'_>,
    ) -> Result<Next, SyncError> {
        let plan = plan(view, decision);
        let Executed { outcome, .. } = executor.run(plan).await;
        let after = after::conclude(view, decision, outcome.failure(), |key| self.sets.store().get(key));
        if let Some((statement, why)) = &after.statement {
            let write = status::write(view.deployment, statement, why);
            executor.perform(write).await.result()?;
        }
        if after.is_failure {
            outcome.result()?;
        }
        Ok(after.requeue.map_or(Next::Settled, Next::After))
    }
}
