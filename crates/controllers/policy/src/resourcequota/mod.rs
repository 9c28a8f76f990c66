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
//!   amounts unknown; an unchanged status is not written; if two DeviceClasses have the same extended resource, the devices of
//!   both count (upstream: of either).
//!
//! In reading order: [`names`] are the resource names in a quota, [`scopes`] select the objects it counts, [`usage`] adds them up,
//! [`plan`] writes the status; [`triggers`], [`catalog`] and `monitors` decide when to sync. Besides `sync.rs`, `monitors` is
//! async: it decides which informers run, after each round of discovery (`common::discovery`). It writes nothing.

pub mod catalog;
pub mod invariants;
mod monitors;
pub mod names;
pub mod plan;
pub mod scopes;
mod shared;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod usage;

use std::sync::Arc;

use flyball_api::ResourceQuota;
use flyball_common::discovery::Rounds;
use flyball_runtime::{Context, StartError, Tasks};

use monitors::Monitors;
use shared::Shared;
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
    let shared = Arc::new(Shared::new(
        quotas.clone(),
        Features::of(&cx.gates),
        routine.clone(),
        missing.clone(),
        replenished,
    ));
    let rounds = Arc::new(Rounds::new(&cx.client));
    let monitors = Arc::new(Monitors::new(cx.clone(), shared.clone()));
    tasks.on(&quotas, {
        let shared = shared.clone();
        move |change| shared.quota_changed(change)
    });
    // A standby reads discovery and lists, too. No quota can be synced before.
    tasks.prepare({
        let (rounds, monitors) = (rounds.clone(), monitors.clone());
        async move { rounds.until_read(&*monitors).await }
    });
    tasks.spawn("discovery", async move { rounds.repeat(&*monitors).await });
    if !period.is_zero() {
        let shared = shared.clone();
        tasks.resync(period, move || shared.sweep());
    }
    let controller = Arc::new(Controller { cx, shared });
    tasks.workers(&routine, workers, controller.clone());
    tasks.workers(&missing, workers, controller);
    Ok(())
}
