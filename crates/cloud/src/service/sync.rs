//! The shell: look up, plan, carry out the steps; after each call to the cloud, plan again with its answer.

use std::sync::Arc;

use flyball_api::{Key, Node, Object, Service};
use flyball_cache::Informer;
use flyball_queue::Queue;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::backends::{Backends, backends, eligible};
use super::invariants;
use super::metrics::ServiceMetrics;
use super::plan::{Answer, Call, IfGone, RecordChange, Step, View, plan, plan_deleted, sync_again_after};
use super::records::Records;
use crate::provider::AnyLoadBalancers;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) cluster: String,
    pub(super) balancers: Arc<dyn AnyLoadBalancers>,
    pub(super) services: Arc<Informer<Service>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) queue: Queue<Key>,
    pub(super) records: Arc<Records>,
    pub(super) metrics: ServiceMetrics,
}

/// A Service and the nodes for its load balancer.
struct Subject {
    service: Arc<Service>,
    nodes: Vec<Arc<Node>>,
    backends: Backends,
    /// The era of the caches that all this is from.
    era: u64,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let next = self.sync_service(key).await;
        self.records.finish_node_syncs(key);
        next
    }
}

impl Controller {
    async fn sync_service(&self, key: &Key) -> Result<Next, SyncError> {
        let era = self.cx.informers.era();
        let service = self.services.store().get(key);
        let nodes = eligible(self.nodes.store().list());
        let backends = backends(&nodes);
        if let Some(deleted) = self.records.deleted(key, service.as_ref().map(|service| service.uid())) {
            let subject = Subject { service: deleted, nodes: vec![], backends: Backends::default(), era };
            let steps = |answers: &[Answer]| {
                let steps = plan_deleted(&subject.service, answers);
                self.cx.judge(|| invariants::check_deleted(&subject.service, answers, &steps));
                steps
            };
            match self.carry_out(key, &subject, steps).await? {
                Next::Settled => {}
                next => return Ok(next),
            }
        }
        let Some(service) = service else { return Ok(Next::Settled) };
        let subject = Subject { service, nodes, backends, era };
        let applied = self.records.applied(key, era);
        let view = View {
            service: &subject.service,
            applied: applied.as_ref(),
            nodes: &subject.nodes,
            backends: &subject.backends,
        };
        self.cx.judge(|| invariants::check(&view));
        let next = self.carry_out(key, &subject, |answers| plan(&view, answers)).await;
        if let Some(delay) = sync_again_after(&view, matches!(next, Ok(Next::Settled))) {
            self.queue.add_after(key.clone(), delay);
        }
        next
    }

    async fn carry_out(
        &self,
        key: &Key,
        subject: &Subject,
        plan: impl Fn(&[Answer]) -> Vec<Step> + Send,
    ) -> Result<Next, SyncError> {
        let about = ObjectRef::of(&*subject.service);
        let executor = self.cx.executor(key).about(about).events(&self.events);
        let mut answers = vec![];
        loop {
            let answered = answers.len();
            for step in plan(&answers) {
                match step {
                    Step::Api(effect) => {
                        let outcome = executor.perform([effect]).await;
                        let plans_again = outcome.ignored().any(|(if_gone, _)| *if_gone == IfGone::PlanAgain);
                        outcome.result()?;
                        if plans_again {
                            answers.push(Answer::Gone);
                            break;
                        }
                    }
                    Step::Call(call) => answers.push(self.call(key, subject, call).await),
                    Step::Record(change) => self.record(key, subject, change),
                    Step::Requeue(after) => return Ok(Next::After(after)),
                }
            }
            if answers.len() == answered {
                return Ok(Next::Settled);
            }
        }
    }

    fn record(&self, key: &Key, subject: &Subject, change: RecordChange) {
        match change {
            RecordChange::Begun => {
                self.records.begin(key, &subject.service, subject.backends.clone(), subject.era)
            }
            RecordChange::Ensured => self.records.ensured(key, &subject.service),
            RecordChange::Deleted => self.records.forget(key),
            RecordChange::UpdateFailed => self.metrics.errors.inc(),
        }
    }

    async fn call(&self, key: &Key, subject: &Subject, call: Call) -> Answer {
        let (cluster, Subject { service, nodes, .. }) = (&self.cluster, subject);
        let name = self.balancers.name(cluster, service);
        tracing::info!(service = %key, load_balancer = name, ?call, nodes = nodes.len(), "calling the cloud");
        let answer = match call {
            Call::Get => {
                self.balancers.get(cluster, service).await.map(|found| Answer::Found(found.is_some()))
            }
            Call::Ensure => self.balancers.ensure(cluster, service, nodes).await.map(Answer::Ensured),
            Call::Delete => self.balancers.delete(cluster, service).await.map(|()| Answer::Done),
            Call::UpdateNodes => {
                let began = Instant::now();
                self.metrics.syncs.inc();
                let updated = self.balancers.update(cluster, service, nodes).await;
                self.metrics.update.observe(began.elapsed().as_secs_f64());
                updated.map(|()| Answer::Done)
            }
        };
        answer.unwrap_or_else(|error| {
            let answer = Answer::of_error(call, &error);
            if let Answer::Failed { error, .. } = &answer {
                tracing::warn!(service = %key, ?call, error, "a call to the cloud failed");
            }
            answer
        })
    }
}
