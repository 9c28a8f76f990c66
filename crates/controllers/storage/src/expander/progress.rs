//! The progress of an expansion in the status of a claim. Pure.

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::{Condition, Quantity, Timestamp, condition};

use crate::names::STORAGE;

const RESIZING: &str = "Resizing";
const FILE_SYSTEM_PENDING: &str = "FileSystemResizePending";
/// All conditions about expansions.
const ALL: [&str; 4] = [FILE_SYSTEM_PENDING, RESIZING, "ControllerResizeError", "NodeResizeError"];

/// The volume begins to grow to a size. With `recovers`, the size is recorded, so that users can reduce a request that cannot be met
/// (RecoverVolumeExpansionFailure).
pub(super) fn begin(
    status: &mut PersistentVolumeClaimStatus,
    size: Quantity,
    recovers: bool,
    now: Timestamp,
) {
    status.conditions.retain(|held| held.type_ == RESIZING || !ALL.contains(&held.type_.as_str()));
    mark(status, RESIZING, "", now);
    if recovers {
        status.allocated_resource_statuses =
            status.allocated_resource_statuses.with(STORAGE, "ControllerResizeInProgress");
        status.allocated_resources.set(STORAGE, size);
    }
}

/// The volume has grown; its file system is yet to be resized.
pub(super) fn leave_to_node(status: &mut PersistentVolumeClaimStatus, recovers: bool, now: Timestamp) {
    let message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
    if recovers {
        status.allocated_resource_statuses =
            status.allocated_resource_statuses.with(STORAGE, "NodeResizePending");
    }
    mark(status, FILE_SYSTEM_PENDING, message, now);
}

/// The expansion is complete.
pub(super) fn finish(status: &mut PersistentVolumeClaimStatus, size: Quantity, recovers: bool) {
    status.capacity.set(STORAGE, size);
    if recovers {
        status.allocated_resource_statuses = status.allocated_resource_statuses.without(STORAGE);
    }
    status.conditions.retain(|held| !ALL.contains(&held.type_.as_str()));
}

/// Sets a condition to true; one that is true already is left as it is.
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
