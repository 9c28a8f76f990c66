//! Writes the usage of each namespace into the status of its ResourceQuotas.
//!
//! - **Promise**: `status.hard` repeats the limits, and `status.used` is the sum over the objects in scope: the
//!   requests of pods, the use of Services and claims, and the number of objects of any resource, custom ones included.
//! - **Watches** ResourceQuotas, Pods, Services and claims; of all other namespaced resources the
//!   metadata, which is mostly shared with the garbage collector. Discovery is read every 30 seconds.
//!   **Writes** the status of ResourceQuotas. So does the API server, which adds the usage of objects it admits; this
//!   controller subtracts, and computes all quotas again every `--resource-quota-sync-period`.
//! - Upstream: `pkg/controller/resourcequota`, `pkg/quota/v1`. What differs: quotas that limit a custom resource are
//!   synced as soon as it is watched, not with the next full resync; a resource that cannot be listed leaves only its own
//!   amounts unknown; an unchanged status is not written.
//!
//! In reading order: [`names`] are the resource names in a quota, [`scopes`] select the objects it counts, [`usage`] adds
//! them up, [`plan`] writes the status; [`triggers`], [`catalog`] and `monitors` decide when to sync.
//! Besides `sync.rs`, `monitors` is async: discovery is a live read that decides which informers run. It writes nothing.

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
    let replenished = cx.metrics.passage("resource_quota_controller_resource_changes");
    let board = Arc::new(Board::new(
        quotas.clone(),
        Features::of(&cx.gates),
        routine.clone(),
        missing.clone(),
        replenished,
    ));
    let monitors = Arc::new(Monitors::new(cx.clone(), board.clone()));
    tasks.on(&quotas, {
        let board = board.clone();
        move |change| board.quota_changed(change)
    });
    // A standby reads discovery and lists, too.
    tasks.prepare({
        let monitors = monitors.clone();
        async move { monitors.first().await }
    });
    tasks.spawn("discovery", async move { monitors.follow().await });
    if !period.is_zero() {
        let board = board.clone();
        tasks.resync(period, move || board.sweep());
    }
    let controller = Arc::new(Controller { cx, board });
    tasks.workers(&routine, workers, controller.clone());
    tasks.workers(&missing, workers, controller);
    Ok(())
}
