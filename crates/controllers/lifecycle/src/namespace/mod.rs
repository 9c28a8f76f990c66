//! Deletes the content of namespaces that are being deleted, then finalizes them.
//!
//! - **Promise**: in a namespace that is being deleted, all objects are deleted, pods before everything else; then its
//!   finalizer `kubernetes` is removed. Until then its conditions report what is left and which finalizers remain.
//! - **Watches** Namespaces; their content is discovered and listed live. **Writes**: deletes objects of every
//!   namespaced resource, and writes the status and `spec.finalizers` of namespaces that are being deleted.
//! - Upstream: `pkg/controller/namespace`. What differs: several resources are deleted at once.
//! - Besides `sync.rs`, `empty` is async: it lists and deletes the content, page by page. `content` says in which order and what
//!   remains, `plan` has the writes, and `failures` says which requests are made again.

pub mod confirmation;
pub mod content;
mod empty;
pub mod failures;
pub mod invariants;
pub mod plan;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Namespace, Object};
use flyball_queue::{Backoff, Priority};
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "namespace-controller";

/// The entry of `spec.finalizers` that this controller removes.
pub const FINALIZER: &str = "kubernetes";

/// The longest backoff of a namespace whose content cannot be deleted.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue_with("namespace", Backoff { max: LONGEST_BACKOFF, ..Backoff::default() });
    let namespaces = cx.informer::<Namespace>();
    tasks.on(&namespaces, {
        let queue = queue.clone();
        move |change| {
            if let Some((key, wait)) = triggers::namespace_changed(change) {
                queue.add_after(key, wait);
            }
        }
    });
    let period = cx.config.namespace_controller.namespace_sync_period;
    if !period.is_zero() {
        tasks.resync(period, {
            let (queue, namespaces) = (queue.clone(), namespaces.clone());
            move || {
                for namespace in namespaces.store().list().iter().filter(|namespace| namespace.is_deleting())
                {
                    queue.add(namespace.key(), Priority::Sweep);
                }
            }
        });
    }
    let workers = cx.config.namespace_controller.concurrent_namespace_syncs;
    let controller = sync::Controller { cx, namespaces };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
