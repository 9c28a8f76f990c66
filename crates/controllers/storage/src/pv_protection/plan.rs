//! When a volume may be deleted. Pure.

use flyball_api::{Object, PersistentVolume};
use flyball_runtime::{Plan, Waiting};

use crate::finalizer::{self, Reasons};
use crate::names::BOUND;

const REASONS: Reasons = Reasons { protect: "claims may be bound to it", release: "no claim is bound to it" };

/// Adds the finalizer, or removes it from a volume that is being deleted and not bound.
pub fn plan(volume: &PersistentVolume) -> Plan {
    let is_bound = volume.status.phase == BOUND;
    let waiting = (is_bound && finalizer::is_releasable(volume))
        .then(|| Waiting::on::<PersistentVolume>(&volume.key(), "to be bound to no claim"));
    Plan::of(finalizer::plan(volume, is_bound, REASONS)).waiting_for(waiting)
}
