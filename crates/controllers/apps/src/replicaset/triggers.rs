//! Which sets to sync after a change of a pod. Pure.

use flyball_api::Key;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Store};
use flyball_common::wake;

use super::Replicated;

/// The controller of the pod, its former controller, and, for a pod without a controller, every set that could adopt
/// it.
pub fn pod_changed<T: Replicated>(change: &Change<'_, Pod>, sets: &Store<T>) -> Vec<Key> {
    wake::owners(change, sets, |set| set.selector().ok())
}
