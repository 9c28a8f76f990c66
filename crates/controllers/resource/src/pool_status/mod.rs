//! Answers the question how many devices of a driver are left.
//!
//! - **Promise**: a ResourcePoolStatusRequest gets one answer: the pools of its driver, by name, with their devices and
//!   how many of them claims have. While a pool is only partly published it waits. Answers go after an hour, questions
//!   without an answer after a day.
//! - **Watches** ResourcePoolStatusRequests, ResourceSlices and ResourceClaims. **Writes** the status of the requests, once,
//!   and deletes them.
//! - Upstream: `pkg/controller/resourcepoolstatusrequest`. What differs: a request that waits for a pool is looked at when
//!   slices of its driver change, instead of five times in a row and then never.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};
use flyball_cache::Index;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "resourcepoolstatusrequest-controller";

/// Requests without an answer by the driver that they ask about.
const PENDING: Index<ResourcePoolStatusRequest> = Index::new("pending driver", |request, emit| {
    if request.status.is_none() {
        emit(&request.spec.driver);
    }
});
const BY_DRIVER: Index<ResourceSlice> = Index::new("driver", |slice, emit| emit(&slice.spec.driver));
/// Claims by the drivers of the devices that they have.
const HOLDERS: Index<ResourceClaim> = Index::new("driver", |claim, emit| {
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
    claims.index(&HOLDERS);
    tasks.feed(&requests, &queue, |change| {
        change.new.filter(|request| request.status.is_none()).map(|_| change.key())
    });
    tasks.feed(&slices, &queue, {
        let requests = requests.clone();
        move |change| {
            let waiting = requests.store().by(&PENDING, &change.object().spec.driver);
            waiting.iter().map(|request| request.metadata.key()).collect::<Vec<_>>()
        }
    });
    tasks.needs(&claims);
    let controller = Arc::new(sync::Controller { cx, requests, slices, claims });
    let cleaner = controller.clone();
    tasks.spawn("look for old requests", async move { cleaner.clean().await });
    tasks.workers(&queue, 1, controller);
    Ok(())
}
