//! Keeps a volume from going while a claim is bound to it.
//!
//! - **Promise**: every volume has the finalizer; one that is being deleted goes as soon as its phase is not `Bound`.
//! - **Watches** volumes. **Writes** its finalizer.
//! - Upstream: `pkg/controller/volume/pvprotection`.

mod sync;

use std::sync::Arc;

use flyball_api::PersistentVolume;
use flyball_runtime::{Context, StartError, Tasks};

use crate::finalizer::{Need, need};

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("pvprotection");
    let volumes = cx.informer::<PersistentVolume>();
    tasks.feed(&volumes, &queue, |change| {
        change.new.filter(|volume| need(&***volume) != Need::Nothing).map(|_| change.key())
    });
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, volumes }));
    Ok(())
}
