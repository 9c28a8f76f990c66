//! Keeps the ranges of Service addresses usable, and from being deleted while addresses depend on them.
//!
//! - **Promise**: a ServiceCIDR has a finalizer and says that it is ready. One that is being deleted goes as soon as
//!   every allocated address belongs to another range as well, and until then says why it stays.
//! - **Watches** ServiceCIDRs and IPAddresses. **Writes** its finalizer and the `Ready` condition of ServiceCIDRs,
//!   nothing else.
//! - Upstream: `pkg/controller/servicecidrs`.

pub mod invariants;
pub mod plan;
mod ranges;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::{IPAddress, Key, Object, ServiceCIDR};
use flyball_cache::{Change, Store};
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs, tells events and owns fields.
pub const NAME: &str = "service-cidr-controller";
/// As upstream; no flag changes it.
const WORKERS: usize = 5;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("ipaddresses");
    let (cidrs, addresses) = (cx.informer::<ServiceCIDR>(), cx.informer::<IPAddress>());
    tasks.feed(&cidrs, &queue, {
        let cidrs = cidrs.clone();
        move |change| cidr_changed(change, cidrs.store())
    });
    tasks.feed(&addresses, &queue, {
        let cidrs = cidrs.clone();
        move |change| address_changed(change, cidrs.store())
    });
    let controller = sync::Controller { events: cx.events.with_source(NAME), cx, cidrs, addresses };
    tasks.workers(&queue, WORKERS, Arc::new(controller));
    Ok(())
}

/// The ServiceCIDRs to look at after a change of one: itself, and, when it is new, those that it may relieve.
fn cidr_changed(change: &Change<'_, ServiceCIDR>, cidrs: &Store<ServiceCIDR>) -> Vec<Key> {
    let mut keys = vec![change.key()];
    if let (None, Some(new)) = (change.old, change.new) {
        let others = cidrs.list();
        keys.extend(others.iter().filter(|other| ranges::overlap(new, other)).map(|other| other.key()));
    }
    keys
}

/// The ServiceCIDRs that an address which came or went may come from.
fn address_changed(change: &Change<'_, IPAddress>, cidrs: &Store<ServiceCIDR>) -> Vec<Key> {
    let ((None, Some(address)) | (Some(address), None)) = (change.old, change.new) else { return vec![] };
    let Some(address) = plan::allocated(address) else { return vec![] };
    cidrs.list().iter().filter(|cidr| ranges::provides(cidr, address)).map(|cidr| cidr.key()).collect()
}
