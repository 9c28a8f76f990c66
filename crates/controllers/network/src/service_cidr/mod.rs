//! Reports ServiceCIDRs as ready, and prevents their deletion while Service addresses depend on them.
//!
//! - **Promise**: a ServiceCIDR has a finalizer and the condition `Ready`. One that is being deleted loses its finalizer
//!   as soon as every allocated address in it is also in another ServiceCIDR; until then its condition is `Terminating`.
//! - **Watches** ServiceCIDRs and IPAddresses. **Writes** its finalizer and the `Ready` condition of ServiceCIDRs,
//!   nothing else.
//! - Upstream: `pkg/controller/servicecidrs`. What differs: retries do not end after fifteen attempts.

pub mod invariants;
pub mod plan;
mod ranges;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{IPAddress, ServiceCIDR};
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs, emits events and owns fields.
pub const NAME: &str = "service-cidr-controller";
/// As upstream; no flag changes it.
const WORKERS: usize = 5;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("ipaddresses");
    let (cidrs, addresses) = (cx.informer::<ServiceCIDR>(), cx.informer::<IPAddress>());
    tasks.feed(&cidrs, &queue, {
        let cidrs = cidrs.clone();
        move |change| triggers::cidr_changed(change, cidrs.store())
    });
    tasks.feed(&addresses, &queue, {
        let cidrs = cidrs.clone();
        move |change| triggers::address_changed(change, cidrs.store())
    });
    let controller = sync::Controller { events: cx.events.with_source(NAME), cx, cidrs, addresses };
    tasks.workers(&queue, WORKERS, Arc::new(controller));
    Ok(())
}
