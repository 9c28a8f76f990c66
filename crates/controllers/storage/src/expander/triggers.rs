//! Which claims to sync after a change.

use flyball_api::{Key, PersistentVolumeClaim};
use flyball_cache::Change;

use super::plan::{capacity, requested};
use crate::names::BOUND;

/// A bound claim that is new, whose request was raised, or whose capacity was raised, after which its volume may lose its annotation.
pub fn claim_changed(change: &Change<'_, PersistentVolumeClaim>) -> Option<Key> {
    let claim = change.new.filter(|claim| claim.status.phase == BOUND)?;
    let has_grown =
        |old: &PersistentVolumeClaim| requested(claim) > requested(old) || capacity(claim) > capacity(old);
    change.old.is_none_or(|old| has_grown(old)).then(|| change.key())
}
