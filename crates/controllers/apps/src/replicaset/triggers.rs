//! Which sets a change of a pod concerns.

use flyball_api::Key;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Store};
use flyball_common::wake;

use super::Replicated;

/// The sets to look at after a change of a pod: its controller, the one it had before, and, for a pod without
/// one, every set that could adopt it.
pub fn pod_changed<T: Replicated>(change: &Change<'_, Pod>, sets: &Store<T>) -> Vec<Key> {
    wake::owners(change, sets, |set| set.selector().ok())
}
