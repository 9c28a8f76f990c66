//! The shell: observe, plan, execute.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::topology::ZONE;
use flyball_api::{EndpointSlice, Key, Node, Service};
use flyball_cache::Informer;
use flyball_common::labelled::pods_with;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;

use super::MANAGER;
use super::hint_states::{HintState, HintStates};
use super::hints::HintMode;
use super::invariants;
use super::metrics::Numbers;
use super::plan::{Planned, View, Zones, plan};
use crate::members::selector;
use crate::own_writes::OwnWrites;
use crate::slices::slices_of;
use crate::trigger_time::TriggerTimes;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) services: Arc<Informer<Service>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) slices: Arc<Informer<EndpointSlice>>,
    pub(super) own_writes: Arc<OwnWrites>,
    pub(super) trigger_times: TriggerTimes,
    pub(super) hint_states: Arc<HintStates>,
    /// Services with pods that are left out because their nodes are not known.
    pub(super) waiting_for_nodes: Mutex<BTreeSet<Key>>,
    pub(super) numbers: Numbers,
    pub(super) queue: Queue<Key>,
    pub(super) capacity: usize,
}

/// Runs after nodes have changed, and requeues the Services whose hints no longer fit or whose pods were left out.
pub(super) struct NodesChanged(pub(super) Arc<Controller>);

impl Reconcile for NodesChanged {
    async fn sync(&self, _: &Key) -> Result<Next, SyncError> {
        let Controller { hint_states, waiting_for_nodes, nodes, queue, .. } = &*self.0;
        let waiting = std::mem::take(&mut *waiting_for_nodes.lock());
        for service in hint_states.overloaded(nodes.store()).into_iter().chain(waiting) {
            queue.add(service, Priority::Change);
        }
        Ok(Next::Settled)
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let result = self.sync_service(key).await;
        self.numbers.count(result.is_ok());
        result
    }
}

impl Controller {
    async fn sync_service(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(service) = self.services.store().get(key) else {
            self.forget(key);
            return Ok(Next::Settled);
        };
        let Some(selector) = selector(&service) else { return Ok(Next::Settled) };
        let pods = pods_with(self.pods.store(), &key.namespace, selector);
        let slices = slices_of(self.slices.store(), key, MANAGER);
        let mode = HintMode::of(&service, self.cx.gates.enabled(Gate::PreferSameTrafficDistribution));
        let ratios = (mode == HintMode::Auto).then(|| self.hint_states.ratios(self.nodes.store())).flatten();
        let view = View {
            service: &service,
            pods: &pods,
            zones: &self.zones_of(&pods),
            slices: &slices,
            capacity: self.capacity,
            trigger: self.trigger_times.observe(&service, &pods),
            ratios: ratios.as_deref(),
            hints: &self.hint_states.get(key),
            mode,
        };
        let planned = plan(&view);
        self.cx.judge(|| invariants::check(&planned.changes, self.capacity));
        self.execute((&service, mode), key, planned).await
    }

    fn forget(&self, key: &Key) {
        self.trigger_times.forget(key);
        self.hint_states.set(key, HintState::default());
        self.waiting_for_nodes.lock().remove(key);
        self.numbers.forget(key);
    }

    fn zones_of(&self, pods: &[Arc<Pod>]) -> Zones {
        let mut zones = Zones::default();
        for pod in pods {
            let name = &pod.spec.node_name;
            if !zones.contains_key(name)
                && let Some(node) = self.nodes.store().get(&Key::cluster(name.as_str()))
            {
                let zone = node.metadata.labels.get(ZONE).filter(|zone| !zone.is_empty());
                zones.insert(name.clone(), zone.map(Into::into));
            }
        }
        zones
    }

    async fn execute(
        &self,
        (service, mode): (&Service, HintMode),
        key: &Key,
        planned: Planned<'_>,
    ) -> Result<Next, SyncError> {
        let Planned { plan, changes, hints } = planned;
        self.hint_states.set(key, hints);
        if !plan.waiting.is_empty() {
            self.waiting_for_nodes.lock().insert(key.clone());
        }
        let expected = self.own_writes.expect_deletions(&plan);
        let executor = self.cx.executor(key).about(ObjectRef::of(service)).events(&self.events);
        let done = executor.run(plan).await;
        self.own_writes.record(&done.outcome, expected);
        self.numbers.synced((service, mode), &changes, self.capacity, &done.outcome);
        done.result()
    }
}
