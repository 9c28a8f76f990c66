//! Detects nodes that are lost, and reports it: in their conditions, in their taints, and on their pods.
//!
//! - **Promise**: a node whose lease and status are not renewed for the grace period gets its conditions set to `Unknown`,
//!   its pods are marked as not ready, and it is tainted so that they are evicted. Nodes that are lost or report that they
//!   are not ready are tainted no faster than the rate of their zone, which is reduced when many nodes of the zone are
//!   lost; while no node at all is ready, no pods are evicted. Problem conditions become `NoSchedule` taints. Deprecated
//!   labels of operating system and architecture follow the current ones.
//! - **Watches** Nodes, Leases (looked up, they trigger nothing) and Pods. **Writes** the conditions of lost nodes, the
//!   `not-ready` and `unreachable` taints, the `NoSchedule` taints of conditions, two labels, and `Ready` of pods on
//!   lost nodes.
//! - Without the gate `SeparateTaintEvictionController`, [`tainteviction`] runs as a part of this controller.
//! - Upstream: `pkg/controller/nodelifecycle`. Differences: rates follow from the state of the zones in every round, a pod
//!   gets an event only if it was marked, a new node with the name of an old one starts afresh, an old lease does not count as
//!   a sign of life after the status was updated, `NoExecute` taints are removed in every round while no node is ready (upstream:
//!   in the first one), pods that are ready on a node that was `Unknown` already when this process began are marked (upstream: only
//!   when the node becomes so), and time in which the informers were unhealthy, or the watch of leases delivered nothing at all, does
//!   not count as silence of nodes.
//!
//! Reading order: [`health`] (when did a node last report?), [`lease_watch`] (would a report have been seen?), [`status`]
//! (what is written about a lost node), [`zone`] (how disrupted is its zone?), [`response`] (what follows for a node),
//! [`round`] (all of it, in steps), [`eviction_queue`] (which node is tainted when), [`unseen_taints`]
//! (which has just been), [`taints`], [`labels`]. Besides
//! `sync.rs`, two files are async: `monitor.rs`, which runs rounds, and `tainter.rs`, which empties the eviction queue.

pub mod eviction_queue;
pub mod health;
pub mod invariants;
pub mod labels;
pub mod lease_watch;
mod metrics;
mod monitor;
pub mod plan;
pub mod response;
pub mod round;
pub mod status;
mod sync;
mod tainter;
pub mod taints;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod unseen_taints;
pub mod zone;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Key, Lease, Node};
use flyball_common::index::by_node;
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, Schedule, StartError, Tasks};

use crate::tainteviction;

/// The name under which the controller runs.
pub const NAME: &str = "node-lifecycle-controller";
/// The source of its events.
const EVENT_SOURCE: &str = "node-controller";

const NODE_WORKERS: usize = 8;
const POD_WORKERS: usize = 4;
/// A period of zero would leave no time for anything else.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    if !cx.gates.enabled(Gate::SeparateTaintEvictionController) {
        tainteviction::start(cx.clone(), tasks)?;
    }
    let node_queue = tasks.queue::<Key>("node_lifecycle_controller");
    let pod_queue = tasks.queue::<Key>("node_lifecycle_controller_pods");
    let (nodes, pods, leases) = (cx.informer::<Node>(), cx.informer::<Pod>(), cx.informer::<Lease>());
    pods.index(&by_node());
    // Every node renews its lease every few seconds: that triggers nothing, the monitor looks leases up.
    tasks.needs(&leases);
    tasks.feed(&nodes, &node_queue, |change| triggers::node_changed(change).then(|| change.key()));
    tasks.feed(&pods, &pod_queue, |change| triggers::pod_changed(change).then(|| change.key()));
    let events = cx.events.with_source(EVENT_SOURCE);
    tasks.workers(&node_queue, NODE_WORKERS, Arc::new(sync::Nodes { cx: cx.clone(), nodes: nodes.clone() }));
    let of_pods =
        sync::Pods { cx: cx.clone(), events: events.clone(), nodes: nodes.clone(), pods: pods.clone() };
    tasks.workers(&pod_queue, POD_WORKERS, Arc::new(of_pods));
    let tainter = Arc::new(tainter::Tainter::new(cx.clone(), nodes.clone()));
    tasks.spawn("tainter", {
        let tainter = tainter.clone();
        async move { tainter.run().await }
    });
    let period = cx.config.kube_cloud_shared.node_monitor_period.max(SHORTEST_PERIOD);
    let verify = usize::try_from(cx.config.flyball.verify_lost_nodes).unwrap_or(0);
    let settings = round::Settings { grace: grace_periods(&cx), policy: policy(&cx), verify };
    let metrics = metrics::NodeMetrics::new(&cx.metrics);
    let monitor = monitor::Monitor { cx, events, nodes, leases, pods, tainter, settings, metrics };
    tasks.periodic("monitor", Schedule::every(period), monitor);
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

fn grace_periods(cx: &Context) -> health::GracePeriods {
    let config = &cx.config.node_lifecycle_controller;
    health::GracePeriods {
        startup: config.node_startup_grace_period,
        monitor: config.node_monitor_grace_period,
    }
}
