//! Keeps a VolumeAttributesClass from being deleted while a volume or a claim refers to it.
//!
//! - **Promise**: every class has the finalizer; one that is being deleted loses it as soon as no volume has the class and
//!   no claim has it, requests it or is being moved to it.
//! - **Watches** classes, claims and volumes. **Writes** its finalizer.
//! - **Files**: no status is written; the simulator has the rule.
//! - Upstream: `pkg/controller/volume/vacprotection`; like it, this relies on the caches alone.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};
use flyball_cache::Index;
use flyball_runtime::{Context, StartError, Tasks};

use crate::finalizer;

const VOLUMES: Index<PersistentVolume> = Index::new("attributes class", |volume, emit| {
    triggers::of_volume(volume).for_each(emit);
});

/// Claims by the classes that they refer to.
const CLAIMS: Index<PersistentVolumeClaim> = Index::new("attributes class", |claim, emit| {
    triggers::of_claim(claim).for_each(emit);
});

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("vacprotection");
    let classes = cx.informer::<VolumeAttributesClass>();
    let (claims, volumes) = (cx.informer::<PersistentVolumeClaim>(), cx.informer::<PersistentVolume>());
    claims.index(&CLAIMS);
    volumes.index(&VOLUMES);
    tasks.feed(&classes, &queue, finalizer::changed);
    tasks.feed(&claims, &queue, |change| triggers::released(change, triggers::of_claim));
    tasks.feed(&volumes, &queue, |change| triggers::released(change, triggers::of_volume));
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, classes, claims, volumes }));
    Ok(())
}
