//! Compares the desired with the actual attachments of one disk, and decides what to do. Pure.

use std::time::Duration;

use flyball_api::VolumeAttachment;
use flyball_runtime::config::AttachDetach;

use super::caches::DesiredAttachment;
use super::disk_on_node::{DiskOnNode, FlexAttachment, Force, Operation, UNMOUNT_TIMEOUT};
use crate::disk::Attacher;

/// How long a driver may take to attach or detach a disk before the attempt counts as failed.
pub const DRIVER_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// One thing to do about a disk; the string is the name of the node.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Create the VolumeAttachment, or call the FlexVolume driver.
    Attach(&'a str),
    /// Allow the node to attach the disk itself, by adding it to `status.volumesAttached`.
    AllowNodeAttach(&'a str),
    /// Sync the node, which updates `status.volumesAttached`.
    Report(&'a str),
    /// Delete the VolumeAttachment, or call the FlexVolume driver. `Force` is why a disk that may be mounted is detached anyway.
    Detach(&'a str, Option<Force>),
    /// Check with the FlexVolume driver that the disk is still attached.
    Verify(&'a str),
    /// Emit the event that the driver could not attach the disk, and back off.
    AttachFailed(&'a str, String),
    /// Back off, because the driver could not detach the disk, or the node still uses it.
    DetachFailed(&'a str, String),
    /// Emit the event that the exclusive disk is attached to other nodes, for the pods that wait for it.
    WarnMultiAttach(&'a str),
    /// Sync the disk again after this delay.
    Wait(Duration),
}

/// What flags decide about attaching and detaching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Whether a disk is detached from an unhealthy node that did not unmount it in time
    /// (not `--disable-force-detach-on-timeout`).
    pub force_on_timeout: bool,
    /// How often it is checked with the driver of a FlexVolume that the volume is attached
    /// (`--attach-detach-reconcile-sync-period`); `None` if never.
    pub verify_after: Option<Duration>,
}

/// A shorter `--attach-detach-reconcile-sync-period` disables the check.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

impl Policy {
    pub fn of(config: &AttachDetach) -> Self {
        let period = config.reconciler_sync_loop_period;
        let verifies = !config.disable_reconciler_sync && period >= SHORTEST_PERIOD;
        Self {
            force_on_timeout: !config.disable_force_detach_on_timeout,
            verify_after: verifies.then_some(period),
        }
    }
}

/// What to do about one disk, given its state on every node that has it or has pods that need it.
pub fn steps<'a>(nodes: &[DiskOnNode<'a>], policy: Policy) -> Vec<Step<'a>> {
    let mut steps = vec![];
    // Detaching comes first: pods on other nodes may wait for the disk.
    for on_node in nodes.iter().filter(|on_node| on_node.desired.is_none() && !on_node.is_unmanaged) {
        steps.extend(detach(on_node, policy.force_on_timeout));
    }
    let mut is_attach_planned = false;
    for on_node in nodes.iter().filter(|on_node| !on_node.is_deleted) {
        let Some(desired) = on_node.desired else { continue };
        let others = || nodes.iter().filter(|other| other.node != on_node.node);
        let deleted = on_node.attachment.filter(|found| found.metadata.is_deleting() && !on_node.is_reported);
        if let Some(attachment) = deleted {
            steps.extend(needed_again(on_node, attachment));
        } else if on_node.is_present() {
            steps.extend(keep_attached(on_node, policy.verify_after));
        } else if on_node.attachment.is_some() {
            steps.extend(attaching(on_node, desired));
        } else if desired.disk.is_exclusive && (is_attach_planned || others().any(DiskOnNode::is_in_progress))
        {
            // Wait: the disk is synced again when the driver has finished, or has exceeded its time.
        } else if desired.disk.is_exclusive && others().any(DiskOnNode::may_be_present) {
            steps.extend((!on_node.is_multi_attach_warned).then_some(Step::WarnMultiAttach(on_node.node)));
        } else if desired.disk.attacher == Attacher::Node {
            is_attach_planned = true;
            steps.push(Step::AllowNodeAttach(on_node.node));
        } else if !on_node.is_backing_off(Operation::Attach) {
            is_attach_planned = true;
            steps.push(Step::Attach(on_node.node));
        }
    }
    steps
}

/// For a node that has the disk and has pods that need it.
fn keep_attached<'a>(on_node: &DiskOnNode<'a>, verify_after: Option<Duration>) -> Option<Step<'a>> {
    if let Some(flex) = &on_node.flex {
        let is_listed_as_attached = matches!(flex.attachment, FlexAttachment::Attached(_));
        return if on_node.is_reported != is_listed_as_attached {
            Some(Step::Report(on_node.node))
        } else {
            let left = verify_after?.saturating_sub(flex.attached_for);
            Some(if left.is_zero() { Step::Verify(on_node.node) } else { Step::Wait(left) })
        };
    }
    let has_driver = on_node.desired.is_some_and(|desired| desired.disk.driver().is_some());
    match on_node.attachment {
        // In volumesAttached, but not attached: correct the status first, then attach the disk.
        None if has_driver && on_node.is_reported => Some(Step::Report(on_node.node)),
        Some(attachment) if on_node.is_reported && !attachment.status.attached => {
            Some(Step::Report(on_node.node))
        }
        _ => (!on_node.is_reported).then_some(Step::Report(on_node.node)),
    }
}

/// For a node that has pods that need the disk, and a VolumeAttachment that is being deleted. If this process requested
/// the detach, because no pod needed the disk, and it is still in progress, wait for it, as upstream does. Otherwise, treat the
/// attach as failed.
fn needed_again<'a>(on_node: &DiskOnNode<'a>, attachment: &VolumeAttachment) -> Vec<Step<'a>> {
    let detach_failed = match own_detach(on_node, attachment) {
        OwnDetach::Running { left } => return vec![Step::Wait(left)],
        OwnDetach::Failed(why) => Some(Step::DetachFailed(on_node.node, why)),
        OwnDetach::None => None,
    };
    detach_failed.into_iter().chain(attach_failed(on_node, "volume attachment is being deleted")).collect()
}

/// The state of a detach that this process requested.
enum OwnDetach {
    /// In progress; it times out after this much longer.
    Running { left: Duration },
    /// It has just failed.
    Failed(String),
    /// This process requested no detach, or has already recorded its failure.
    None,
}

fn own_detach(on_node: &DiskOnNode<'_>, attachment: &VolumeAttachment) -> OwnDetach {
    match (&attachment.status.detach_error, on_node.detaching_for) {
        (_, None) => OwnDetach::None,
        (Some(error), Some(_)) => OwnDetach::Failed(error.message.to_string()),
        (None, Some(so_long)) if so_long < DRIVER_TIMEOUT => {
            OwnDetach::Running { left: DRIVER_TIMEOUT - so_long }
        }
        (None, Some(_)) => {
            let driver = &attachment.spec.attacher;
            let why = format!("timed out waiting for external-attacher of {driver} CSI driver to detach it");
            OwnDetach::Failed(why)
        }
    }
}

/// For a node that has pods that need the disk, and a VolumeAttachment that is not attached yet.
fn attaching<'a>(on_node: &DiskOnNode<'a>, desired: &DesiredAttachment) -> Option<Step<'a>> {
    let attachment = on_node.attachment?;
    if let Some(error) = &attachment.status.attach_error {
        return attach_failed(on_node, &error.message);
    }
    if on_node.attaching_for < DRIVER_TIMEOUT {
        return Some(Step::Wait(DRIVER_TIMEOUT - on_node.attaching_for));
    }
    let (driver, handle) = desired.disk.driver().map(|by| (by.driver.as_str(), by.handle.as_str()))?;
    attach_failed(
        on_node,
        &format!("timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"),
    )
}

fn attach_failed<'a>(on_node: &DiskOnNode<'a>, why: &str) -> Option<Step<'a>> {
    (!on_node.is_backing_off(Operation::Attach)).then(|| Step::AttachFailed(on_node.node, why.to_owned()))
}

/// For a managed node without pods that need the disk.
fn detach<'a>(on_node: &DiskOnNode<'a>, force_on_timeout: bool) -> Option<Step<'a>> {
    if !on_node.may_detach(force_on_timeout) {
        let is_forced_later = !on_node.state.is_healthy && force_on_timeout;
        // `may_detach` compares with `>`, so one millisecond more.
        return is_forced_later
            .then(|| Step::Wait(UNMOUNT_TIMEOUT - on_node.undesired_for + Duration::from_millis(1)));
    }
    if on_node.lacks_driver() {
        return None;
    }
    if on_node.is_reported {
        // Remove it from volumesAttached first, so that the node does not mount a disk that is about to be detached.
        return Some(Step::Report(on_node.node));
    }
    if !on_node.needs_detach() || on_node.is_backing_off(Operation::Detach) {
        return None;
    }
    if let Some(attachment) = on_node.attachment.filter(|found| found.metadata.is_deleting()) {
        match own_detach(on_node, attachment) {
            OwnDetach::Running { left } => return Some(Step::Wait(left)),
            OwnDetach::Failed(why) => return Some(Step::DetachFailed(on_node.node, why)),
            // Delete the VolumeAttachment again: this is a no-op on the server, but it restarts the driver timeout.
            OwnDetach::None => {}
        }
    }
    Some(match (on_node.force(force_on_timeout), &on_node.detach_blocker) {
        (None, Some(why)) => Step::DetachFailed(on_node.node, why.clone()),
        (force, _) => Step::Detach(on_node.node, force),
    })
}
