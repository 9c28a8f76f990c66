//! Says in the status of every ResourceQuota what its namespace uses of what it may use.
//!
//! - **Promise**: `status.hard` repeats the limits, and `status.used` is the sum over the objects in scope: what pods
//!   ask for, what services and claims take, and how many there are of any resource, custom ones included.
//! - **Watches** ResourceQuotas, Pods, Services and claims; of everything else that can be made in a namespace the
//!   metadata, which is mostly shared with the garbage collector. What is served is asked for every 30 seconds.
//!   **Writes** the status of ResourceQuotas. So does the API server, which books what it lets in; this controller
//!   finds what was given back, and all quotas are summed up anew every `--resource-quota-sync-period`.
//! - Upstream: `pkg/controller/resourcequota`, `pkg/quota/v1`. What differs: quotas that name a custom resource are
//!   looked at as soon as it is followed, not with the next full resync; a resource that cannot be listed leaves
//!   its own amounts unknown and keeps nothing else from being summed up; a status that says the same is not sent.
//!
//! In reading order: [`names`] are the words of a quota, [`scopes`] which objects it counts, [`usage`] what those use,
//! [`plan`] the status; [`triggers`], [`catalog`] and `monitors` say when to look.

mod board;
pub mod catalog;
pub mod invariants;
mod monitors;
pub mod names;
pub mod plan;
pub mod scopes;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod usage;

use std::sync::Arc;

use flyball_api::ResourceQuota;
use flyball_runtime::{Context, StartError, Tasks};

use board::Board;
use monitors::Monitors;
use sync::Controller;
use usage::Features;

/// The name under which the controller runs.
pub const NAME: &str = "resourcequota-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.resource_quota_controller;
    let workers = usize::try_from(config.concurrent_resource_quota_syncs).unwrap_or(1);
    let period = config.resource_quota_sync_period;
    let (routine, missing) = (tasks.queue("resourcequota_primary"), tasks.queue("resourcequota_priority"));
    let quotas = cx.informer::<ResourceQuota>();
    let given_back = cx.metrics.passage("resource_quota_controller_resource_changes");
    let board = Arc::new(Board::new(
        quotas.clone(),
        Features::of(&cx.gates),
        routine.clone(),
        missing.clone(),
        given_back,
    ));
    let monitors = Arc::new(Monitors::new(cx.clone(), board.clone()));
    tasks.on(&quotas, {
        let board = board.clone();
        move |change| board.quota_changed(change)
    });
    // The first look at discovery and the first lists are done on standby already.
    tasks.prepare({
        let monitors = monitors.clone();
        async move { monitors.first().await }
    });
    tasks.spawn("discovery", async move { monitors.follow().await });
    if !period.is_zero() {
        let board = board.clone();
        tasks.spawn("full resync", async move {
            loop {
                tokio::time::sleep(period).await;
                board.sweep();
            }
        });
    }
    let controller = Arc::new(Controller { cx, board });
    tasks.workers(&routine, workers, controller.clone());
    tasks.workers(&missing, workers, controller);
    Ok(())
}
