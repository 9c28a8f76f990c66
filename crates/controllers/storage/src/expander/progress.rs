//! How the status of a claim tells that its volume grows. Pure.

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::{Condition, Quantity, Timestamp, condition};

use crate::names::STORAGE;

const GROWING: &str = "Resizing";
const NODE_NEEDED: &str = "FileSystemResizePending";
/// The conditions that tell of growing.
const ALL: [&str; 4] = [NODE_NEEDED, GROWING, "ControllerResizeError", "NodeResizeError"];

/// A volume grows to a size.
pub(super) fn begun(status: &mut PersistentVolumeClaimStatus, size: Quantity, now: Timestamp) {
    status.conditions.retain(|held| held.type_ == GROWING || !ALL.contains(&held.type_.as_str()));
    mark(status, GROWING, "", now);
    status.allocated_resource_statuses =
        status.allocated_resource_statuses.with(STORAGE, "ControllerResizeInProgress");
    status.allocated_resources.set(STORAGE, size);
}

/// A volume has grown, its file system is yet to.
pub(super) fn left_to_node(status: &mut PersistentVolumeClaimStatus, now: Timestamp) {
    let message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
    status.allocated_resource_statuses =
        status.allocated_resource_statuses.with(STORAGE, "NodeResizePending");
    mark(status, NODE_NEEDED, message, now);
}

/// A volume has grown, and nothing else has to.
pub(super) fn finished(status: &mut PersistentVolumeClaimStatus, size: Quantity) {
    status.capacity.set(STORAGE, size);
    status.allocated_resource_statuses = status.allocated_resource_statuses.without(STORAGE);
    status.conditions.retain(|held| !ALL.contains(&held.type_.as_str()));
}

/// Adds a condition that holds; one that holds already stays as it is.
fn mark(status: &mut PersistentVolumeClaimStatus, type_: &str, message: &str, now: Timestamp) {
    let new = Condition {
        type_: type_.into(),
        status: condition::TRUE.into(),
        last_transition_time: Some(now),
        message: message.into(),
        ..Condition::default()
    };
    match status.conditions.iter_mut().find(|held| held.type_ == type_) {
        Some(held) if held.is_true() => {}
        Some(held) => *held = new,
        None => status.conditions.push(new),
    }
}
