//! Looks again, every so often, at what is not at rest.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim};
use flyball_queue::{Priority, Queue};
use tokio::time::{MissedTickBehavior, interval};

use super::sync::Binder;
use super::triggers::claim_of;
use super::volume::{Policy, policy, refers_to_one};
use crate::names::{AVAILABLE, BIND_COMPLETED, BOUND, RELEASED};

/// Whether claim and volume are bound to each other and say so.
fn are_one(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim.spec.volume_name == volume.metadata.name
        && claim.metadata.annotations.contains_key(BIND_COMPLETED)
        && claim.status.phase == BOUND
        && volume.status.phase == BOUND
        && is_meant(volume, claim)
}

/// Whether a volume refers to this very claim, and not to another one of its name.
fn is_meant(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| reference.uid == claim.metadata.uid)
}

/// Whether nothing can be done for a claim that its own changes would not bring about: it has its volume, and says how
/// it can be used.
fn claim_rests(claim: &PersistentVolumeClaim, volume: Option<&PersistentVolume>) -> bool {
    volume
        .is_some_and(|volume| are_one(claim, volume) && claim.status.access_modes == volume.spec.access_modes)
}

/// The same for a volume.
fn volume_rests(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> bool {
    match volume.status.phase.as_str() {
        AVAILABLE => !refers_to_one(volume),
        BOUND => claim.is_some_and(|claim| are_one(claim, volume)),
        RELEASED => claim.is_none_or(|claim| !is_meant(volume, claim)) && policy(volume) == Policy::Retain,
        _ => false,
    }
}

/// Fills the queues every `period`.
pub(super) async fn run(
    binder: Arc<Binder>,
    claim_queue: Queue<Key>,
    volume_queue: Queue<Key>,
    period: Duration,
) {
    let mut every = interval(period);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first comes at once; the caches' own first listing has filled the queues already.
    every.tick().await;
    loop {
        every.tick().await;
        let (claims, volumes) = (binder.claims.informer.store(), binder.volumes.informer.store());
        for claim in claims.list() {
            let volume = volumes.get(&Key::cluster(claim.spec.volume_name.as_str()));
            if !claim_rests(&claim, volume.as_deref()) {
                claim_queue.add(claim.key(), Priority::Sweep);
            }
        }
        for volume in volumes.list() {
            let claim = claim_of(&volume).and_then(|key| claims.get(&key));
            if !volume_rests(&volume, claim.as_deref()) {
                volume_queue.add(volume.key(), Priority::Sweep);
            }
        }
    }
}
