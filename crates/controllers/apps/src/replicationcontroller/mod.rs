//! Maintains the number of pods that a ReplicationController specifies.
//!
//! A ReplicationController is the predecessor of the ReplicaSet: its selector is a plain map, its status does not count terminating
//! pods, and when it deletes pods, it does not matter how they are spread over nodes. All behavior is in [`crate::replicaset`].
//! Upstream: `pkg/controller/replication`.

use std::sync::Arc;

use flyball_api::replica_set::ReplicaSetStatus;
use flyball_api::selector::{InvalidSelector, Selector};
use flyball_api::{PodTemplate, ReplicationController};
use flyball_runtime::{Context, StartError, Tasks};

use crate::replicaset::{self, Replicated};

/// The name under which the controller runs.
pub const NAME: &str = "replicationcontroller-controller";

impl Replicated for ReplicationController {
    const EVENT_SOURCE: &'static str = "replication-controller";
    const COUNTS_TERMINATING: bool = false;
    const SPREADS_OVER_NODES: bool = false;

    fn selector(&self) -> Result<Selector, InvalidSelector> {
        // An empty map means that there is no selector. As a selector it would match every pod of the namespace.
        match self.spec.selector.is_empty() {
            true => Ok(Selector::nothing()),
            false => Ok(Selector::from_labels(&self.spec.selector)),
        }
    }

    fn replicas(&self) -> usize {
        usize::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds
    }

    fn template(&self) -> Option<&PodTemplate> {
        self.spec.template.as_ref()
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }
}

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let workers = cx.config.replication_controller.concurrent_rc_syncs;
    replicaset::start_for::<ReplicationController>(cx, tasks, "replicationmanager", workers)
}
