//! Keeps a VolumeAttributesClass from going while a volume or a claim refers to it.
//!
//! - **Promise**: every class has the finalizer; one that is being deleted goes as soon as no volume has it and no
//!   claim has, wants or is about to get it.
//! - **Watches** classes, claims and volumes. **Writes** its finalizer.
//! - Upstream: `pkg/controller/volume/vacprotection`; like it, caches alone decide.

mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};
use flyball_cache::Index;
use flyball_runtime::{Context, StartError, Tasks};

use crate::finalizer::{Need, need};

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
    tasks.feed(&classes, &queue, |change| {
        change.new.filter(|class| need(&***class) != Need::Nothing).map(|_| change.key())
    });
    tasks.feed(&claims, &queue, |change| triggers::given_up(change, triggers::of_claim));
    tasks.feed(&volumes, &queue, |change| triggers::given_up(change, triggers::of_volume));
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, classes, claims, volumes }));
    Ok(())
}
