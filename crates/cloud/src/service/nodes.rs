//! The shell for changes of nodes: it queues the Services that have to follow. Only their own syncs change load balancers, so
//! that no load balancer is changed twice at once.

use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::Informer;
use flyball_queue::{Priority, Queue};
use flyball_runtime::{Next, Reconcile, SyncError};

use super::backends::{backends, eligible};
use super::metrics::ServiceMetrics;
use super::records::Records;

pub(super) struct NodeChanges {
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) services: Queue<Key>,
    pub(super) records: Arc<Records>,
    pub(super) metrics: ServiceMetrics,
}

impl Reconcile for NodeChanges {
    async fn sync(&self, _: &Key) -> Result<Next, SyncError> {
        let node_sync = Arc::new(self.metrics.node_sync());
        let backends = backends(&eligible(self.nodes.store().list()));
        for key in self.records.with_other_backends(&backends, &node_sync) {
            self.services.add(key, Priority::Change);
        }
        Ok(Next::Settled)
    }
}
