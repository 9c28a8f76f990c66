//! Notices nodes that are lost, and says so: in their conditions, in their taints, and on their pods.
//!
//! - **Promise**: a node of which neither lease nor status is renewed for the grace period gets its conditions set
//!   to `Unknown`, its pods are marked as not ready, and it is tainted so that they are evicted. Nodes that are lost
//!   or say that they are not ready are tainted no faster than the rate of their zone, which falls when many nodes
//!   of the zone are lost; while no node at all is ready, nobody is evicted. Conditions that speak against a node
//!   show as `NoSchedule` taints. The old labels of operating system and architecture follow the new ones.
//! - **Watches** Nodes, Leases (read, never listened to) and Pods. **Writes** the conditions of lost nodes, the
//!   `not-ready` and `unreachable` taints, the `NoSchedule` taints of conditions, two labels, and `Ready` of pods on
//!   lost nodes.
//! - Upstream: `pkg/controller/nodelifecycle`. What differs: rates follow from the state of the zones at every look,
//!   a pod is told of only if it was marked, a node that comes back under its old name is a new one, and time in
//!   which leases could not be watched, or nothing at all came through their watch, is not held against any node.
//!
//! Reading order: [`health`] (was it heard of?), [`sight`] (could it have been?), [`status`] (what is written of a lost node), [`zone`] (how does its
//! zone fare?), [`plan`] (what follows), [`pacing`] (who is tainted when), [`taints`], [`labels`].

pub mod health;
pub mod invariants;
pub mod labels;
mod metrics;
mod monitor;
pub mod pacing;
pub mod plan;
pub mod sight;
pub mod status;
mod sync;
mod tainter;
pub mod taints;
#[cfg(test)]
mod tests;
pub mod triggers;
mod writes;
pub mod zone;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Lease, Node};
use flyball_common::index::by_node;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "node-lifecycle-controller";
/// Where its events come from.
const EVENT_SOURCE: &str = "node-controller";

const NODE_WORKERS: usize = 8;
const POD_WORKERS: usize = 4;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let node_queue = tasks.queue::<Key>("node_lifecycle_controller");
    let pod_queue = tasks.queue::<Key>("node_lifecycle_controller_pods");
    let (nodes, pods, leases) = (cx.informer::<Node>(), cx.informer::<Pod>(), cx.informer::<Lease>());
    pods.index(&by_node());
    // A lease is renewed every few seconds by each node: nobody listens, the monitor looks them up.
    tasks.needs(&leases);
    tasks.feed(&nodes, &node_queue, |change| triggers::node_changed(change).then(|| change.key()));
    tasks.feed(&pods, &pod_queue, |change| triggers::pod_changed(change).then(|| change.key()));
    let events = cx.events.with_source(EVENT_SOURCE);
    let hands = Arc::new(writes::Hands { cx: cx.clone(), events, pods });
    let tainter = Arc::new(tainter::Tainter::new(hands.clone(), nodes.clone()));
    tasks.workers(
        &node_queue,
        NODE_WORKERS,
        Arc::new(sync::Nodes { hands: hands.clone(), nodes: nodes.clone() }),
    );
    tasks.workers(
        &pod_queue,
        POD_WORKERS,
        Arc::new(sync::Pods { hands: hands.clone(), nodes: nodes.clone() }),
    );
    let monitor = monitor::Monitor {
        hands,
        nodes,
        leases,
        tainter: tainter.clone(),
        policy: policy(&cx),
        graces: graces(&cx),
        period: cx.config.kube_cloud_shared.node_monitor_period,
        numbers: metrics::Numbers::new(&cx.metrics),
        memory: monitor::Memory::default(),
    };
    tasks.spawn("tainter", async move { tainter.run().await });
    tasks.spawn("monitor", monitor.run());
    Ok(())
}

fn policy(cx: &Context) -> zone::Policy {
    let config = &cx.config.node_lifecycle_controller;
    zone::Policy {
        rate: config.node_eviction_rate,
        reduced_rate: config.secondary_node_eviction_rate,
        large: usize::try_from(config.large_cluster_size_threshold).unwrap_or(0),
        threshold: config.unhealthy_zone_threshold,
    }
}

fn graces(cx: &Context) -> health::Graces {
    let config = &cx.config.node_lifecycle_controller;
    health::Graces { startup: config.node_startup_grace_period, monitor: config.node_monitor_grace_period }
}
