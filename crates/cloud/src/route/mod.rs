//! Creates a route in the cloud's network for every range of pod addresses of a Node.
//!
//! - **Promise**: for every range in a Node's `spec.podCIDRs` the cloud has a route to that Node, and the condition
//!   `NetworkUnavailable` shows whether it has. Routes inside `--cluster-cidr` that lead nowhere, or to Nodes that do not
//!   have the range, are deleted; routes outside are left alone.
//! - **Watches** Nodes, and reads the routes of the cloud in rounds, `--route-reconciliation-period` apart; with the feature gate
//!   `CloudControllerManagerWatchBasedRoutesReconciliation` whenever Nodes change, ten seconds apart at least.
//!   **Writes** that one condition.
//! - Upstream: `cloud-provider/controllers/route`. What differs: routes are always deleted before others are
//!   created; a route that leads nowhere is created again in the same round.

pub mod invariants;
mod pace;
pub mod plan;
pub mod settings;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node};
use flyball_queue::Backoff;
use flyball_runtime::gates::Gate;
use flyball_runtime::metrics::{Family, RunningController, Stability};
use flyball_runtime::{Context, Schedule, StartError, Tasks};

use self::pace::Pace;
use crate::surroundings::{cloud, lacking};

const EVENT_SOURCE: &str = "route_controller";
/// The shortest time between two rounds after changes of Nodes.
const BETWEEN_CHANGES: Duration = Duration::from_secs(10);
/// A period of zero would leave no time for other tasks.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

static SYNCS: Family = Family::counter(
    "route_controller_route_sync_total",
    Stability::Alpha,
    &[],
    "A metric counting the amount of times routes have been synced with the cloud provider.",
);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.kube_cloud_shared;
    if !config.configure_cloud_routes {
        return Err(StartError::NotNeeded("--configure-cloud-routes is off".to_owned()));
    }
    let routes = cloud(&cx)?.routes.clone().ok_or_else(|| lacking("routes"))?;
    let ranges = settings::ranges(&config.cluster_cidr).map_err(StartError::Misconfigured)?;
    let (period, cluster) = (config.route_reconciliation_period, config.cluster_name.clone());
    let nodes = cx.informer::<Node>();
    let controller = sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        running: RunningController::new(&cx.metrics, cx.component, "route"),
        syncs: cx.metrics.counter(&SYNCS, &[]),
        nodes: nodes.clone(),
        cx: cx.clone(),
        routes,
        cluster,
        ranges,
    };
    if !cx.gates.enabled(Gate::CloudControllerManagerWatchBasedRoutesReconciliation) {
        tasks.needs(&nodes);
        let schedule = Schedule::every(period.max(SHORTEST_PERIOD)).from_start();
        tasks.periodic("rounds", schedule, controller);
        return Ok(());
    }
    let backoff = Backoff { base: BETWEEN_CHANGES, max: BETWEEN_CHANGES, rate: 0.0, burst: 0.0 };
    let queue = tasks.queue_with::<Key>("Routes", backoff);
    let pace = Pace::new(BETWEEN_CHANGES);
    tasks.on(&nodes, {
        let queue = queue.clone();
        move |change| {
            if triggers::concerns_routes(change) {
                queue.add_after(Key::cluster("routes"), pace.wait());
            }
        }
    });
    tasks.workers(&queue, 1, Arc::new(controller));
    Ok(())
}
