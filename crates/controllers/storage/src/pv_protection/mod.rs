//! Keeps a volume from being deleted while a claim is bound to it.
//!
//! - **Promise**: every volume has the finalizer; one that is being deleted loses it as soon as its phase is not `Bound`.
//! - **Watches** volumes. **Writes** its finalizer.
//! - **Files**: the trigger is [`crate::finalizer`]'s, for all kinds; no status is written; the simulator has the rule.
//! - Upstream: `pkg/controller/volume/pvprotection`.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::PersistentVolume;
use flyball_runtime::{Context, StartError, Tasks};

use crate::finalizer;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("pvprotection");
    let volumes = cx.informer::<PersistentVolume>();
    tasks.feed(&volumes, &queue, finalizer::changed);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, volumes }));
    Ok(())
}
