//! Deletes pods that no other component deletes: finished ones over a threshold, those of nodes that are gone, those
//! that were deleted before they were bound to a node, and terminating ones on nodes that are out of service.
//!
//! - **Promise**: such a pod is marked `Failed` (with a `DisruptionTarget` condition if its node is gone) and
//!   deleted without a grace period. A node counts as gone when it has been missing for 40 seconds and the server
//!   confirms it.
//! - **Watches** Pods and Nodes, and checks all of them every 20 seconds. **Writes**: deletes pods, and patches
//!   phase and conditions of those that it deletes.
//! - Upstream: `pkg/controller/podgc`. What differs: a pod that is gone already does not count as an error, and one that is
//!   to be deleted for several reasons is deleted and counted once.

pub mod invariants;
mod metrics;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::Node;
use flyball_api::pod::Pod;
use flyball_runtime::{Context, Schedule, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "pod-garbage-collector-controller";

const PERIOD: Duration = Duration::from_secs(20);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let missing = tasks.queue("orphaned_pods_nodes");
    let (pods, nodes) = (cx.informer::<Pod>(), cx.informer::<Node>());
    tasks.needs(&pods);
    tasks.needs(&nodes);
    tasks.periodic("rounds", Schedule::every(PERIOD), sync::Controller { cx, pods, nodes, missing });
    Ok(())
}
