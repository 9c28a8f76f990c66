//! Publishes the pods behind each Service in one Endpoints object, for readers that do not know EndpointSlices.
//!
//! - **Promise**: once a Service and its pods stop changing, its Endpoints hold the address of every selected pod
//!   in the Service's first family, ready or not, up to a thousand addresses; when the Service goes, they go.
//! - **Watches** Services, Pods and Endpoints. **Writes** the Endpoints of Services that have a selector, and
//!   deletes those of Services that are gone. ExternalName Services are left alone.
//! - Upstream: `pkg/controller/endpoint`. What differs: truncated Endpoints that are right are not written again,
//!   a deletion is asked for only if there is something to delete, and ports and subsets are sorted by their
//!   contents instead of by a hash.

pub mod invariants;
pub mod plan;
pub mod subsets;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Key, Service};
use flyball_cache::{Change, Origin};
use flyball_common::labelled::PODS_BY_LABEL;
use flyball_queue::Priority;
use flyball_runtime::{Context, StartError, Tasks};

use crate::members::{self, SERVICES_BY_SELECTOR};
use crate::names::LEADER;

/// How the controller signs its Endpoints; also where its events come from.
pub const MANAGER: &str = "endpoint-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.endpoint_controller;
    let (workers, batch_period) = (config.concurrent_endpoint_syncs, config.endpoint_updates_batch_period);
    let queue = tasks.queue("endpoint");
    let (services, pods, endpoints) =
        (cx.informer::<Service>(), cx.informer::<Pod>(), cx.informer::<Endpoints>());
    services.index(&SERVICES_BY_SELECTOR);
    pods.index(&PODS_BY_LABEL);
    tasks.feed(&services, &queue, |change| [change.key()]);
    tasks.on(&pods, {
        let (queue, services) = (queue.clone(), services.clone());
        move |change| {
            for key in members::concerned(change, services.store()) {
                if change.origin.is_fresh() {
                    queue.add_after(key, batch_period);
                } else {
                    queue.add(key, Priority::Sweep);
                }
            }
        }
    });
    tasks.feed(&endpoints, &queue, endpoints_changed);
    let controller = sync::Controller {
        events: cx.events.with_source(MANAGER),
        trigger_times: Default::default(),
        cx,
        services,
        pods,
        endpoints,
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}

/// The Service to look at after a change of Endpoints: deleted ones may be wanted back, and those that are found at
/// the start may have outlived their Service, unless they only serve to elect a leader.
fn endpoints_changed(change: &Change<'_, Endpoints>) -> Option<Key> {
    let is_leftover = |endpoints: &Arc<Endpoints>| {
        change.origin == Origin::Initial && !endpoints.metadata.annotations.contains_key(LEADER)
    };
    change.new.is_none_or(is_leftover).then(|| change.key())
}
