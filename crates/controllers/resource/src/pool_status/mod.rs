//! Answers ResourcePoolStatusRequests: how many devices the pools of a driver have, and how many are available.
//!
//! - **Promise**: a ResourcePoolStatusRequest gets one status: the pools of its driver, by name, with the number of their
//!   devices and how many of them are allocated to ResourceClaims. As long as not all slices of a pool are published, the
//!   request stays pending. Requests are deleted an hour after they were answered, and a day after their creation if they
//!   were not.
//! - **Watches** ResourcePoolStatusRequests, ResourceSlices and ResourceClaims. **Writes** the status of the requests, once,
//!   and deletes them.
//! - Upstream: `pkg/controller/resourcepoolstatusrequest`. What differs: a pending request is synced when slices of its
//!   driver change, and when its status could not be written, with backoff; upstream tries five times in a row and then never.
//! - **Files**: `plan` answers a request, with `sync` as its shell; `expiry` deletes old ones, with `cleaner` as its shell.

mod cleaner;
mod expiry;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};
use flyball_cache::Index;

use flyball_runtime::{Context, Schedule, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "resourcepoolstatusrequest-controller";

const CLEANUP_PERIOD: Duration = Duration::from_secs(10 * 60);

/// Requests without a status by their driver.
const PENDING: Index<ResourcePoolStatusRequest> = Index::new("pending driver", |request, emit| {
    if request.status.is_none() {
        emit(&request.spec.driver);
    }
});
const BY_DRIVER: Index<ResourceSlice> = Index::new("driver", |slice, emit| emit(&slice.spec.driver));
/// ResourceClaims by the drivers of the devices that are allocated to them.
const ALLOCATED: Index<ResourceClaim> = Index::new("driver", |claim, emit| {
    let results = claim.status.allocation.as_ref().map(|allocation| &allocation.devices.results);
    let mut drivers: Vec<&str> = results.into_iter().flatten().map(|device| device.driver.as_str()).collect();
    drivers.sort_unstable();
    drivers.dedup();
    drivers.into_iter().for_each(emit);
});

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("resourcepoolstatusrequest");
    let requests = cx.informer::<ResourcePoolStatusRequest>();
    let (slices, claims) = (cx.informer::<ResourceSlice>(), cx.informer::<ResourceClaim>());
    requests.index(&PENDING);
    slices.index(&BY_DRIVER);
    claims.index(&ALLOCATED);
    tasks.feed(&requests, &queue, |change| {
        change.new.filter(|request| request.status.is_none()).map(|_| change.key())
    });
    tasks.feed(&slices, &queue, {
        let requests = requests.clone();
        move |change| {
            let pending = requests.store().by(&PENDING, &change.object().spec.driver);
            pending.iter().map(|request| request.metadata.key()).collect::<Vec<_>>()
        }
    });
    tasks.needs(&claims);
    let cleaner = cleaner::Cleaner { cx: cx.clone(), requests: requests.clone() };
    tasks.periodic("delete old requests", Schedule::every(CLEANUP_PERIOD), cleaner);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, requests, slices, claims }));
    Ok(())
}
