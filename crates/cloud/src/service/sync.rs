//! The shell: look up, plan, carry out the steps; after each call to the cloud, plan again with its answer.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, Object, Service};
use flyball_cache::Informer;
use flyball_queue::Queue;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::backends::{Backends, backends, eligible};
use super::invariants;
use super::metrics::ServiceMetrics;
use super::plan::{Action, Answer, Call, IfGone, RecordChange, Step, View, action, plan, plan_deleted};
use super::records::Records;
use crate::CloudError;
use crate::provider::AnyLoadBalancers;

/// A clean-up that failed is tried again after this long, whatever the backoff.
const CLEANUP_PERIOD: Duration = Duration::from_secs(30);

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
        if action(&view) == Action::CleanUp && !matches!(next, Ok(Next::Settled)) {
            self.queue.add_after(key.clone(), CLEANUP_PERIOD);
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
                        let is_end = outcome.ignored().any(|(if_gone, _)| *if_gone == IfGone::Stop);
                        outcome.result()?;
                        if is_end {
                            self.records.forget(key);
                            return Ok(Next::Settled);
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
        answer.unwrap_or_else(|error| match error {
            CloudError::ImplementedElsewhere if call != Call::Get => Answer::ManagedElsewhere,
            error => {
                tracing::warn!(service = %key, ?call, error = %Chain(&error), "a call to the cloud failed");
                Answer::Failed { retry_after: error.retry_after(), error: Chain(&error).to_string() }
            }
        })
    }
}
