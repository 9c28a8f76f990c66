//! The desired and actual state of one disk on one node, from the caches and the ledger. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Node, VolumeAttachment};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::caches::{DesiredAttachment, is_managed};
use super::ledger::{Ledger, Observation};
use crate::disk::is_name_of;

/// How long an unhealthy node may take to unmount a disk before the disk is detached by force.
pub const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(6 * 60);

/// The desired and actual state of one disk on one node.
#[derive(Debug, Clone, Default)]
pub struct DiskOnNode<'a> {
    pub node: &'a str,
    /// The pods on the node that need the disk; `None` if it should not be attached.
    pub desired: Option<&'a DesiredAttachment>,
    /// The VolumeAttachment for this disk and node.
    pub attachment: Option<&'a VolumeAttachment>,
    /// Whether the disk is in `status.volumesAttached` of the node, or a write that adds it is in flight.
    pub is_reported: bool,
    /// Whether the disk was in `status.volumesAttached` at any time since it was attached, even if the node was since then
    /// deleted and registered again without it.
    pub was_reported: bool,
    /// Whether the node may attach the disk itself ([`Step::AllowNodeAttach`](super::steps::Step)).
    pub is_node_attach_allowed: bool,
    /// If it is a FlexVolume: what its driver is known to have done.
    pub flex: Option<FlexState>,
    pub state: NodeState,
    /// How long ago the last pod on the node that needed the disk went away.
    pub undesired_for: Duration,
    /// How long ago the driver began to attach it.
    pub attaching_for: Duration,
    /// How long ago the driver was asked to detach it; `None` if that attempt has failed, or was made before this process started.
    pub detaching_for: Option<Duration>,
    /// The operation that failed last, unless one has succeeded since.
    pub failure: Option<Failure>,
    /// Whether the deletion of the VolumeAttachment is in flight.
    pub is_detaching: bool,
    /// Whether the pods on the node already got the event that the disk is attached to other nodes.
    pub is_multi_attach_warned: bool,
    /// Whether the node lacks the annotation `controller-managed-attach-detach`. This controller does not attach or detach its
    /// disks, but an exclusive disk that it has is not attached elsewhere.
    pub is_unmanaged: bool,
    /// Whether the node was deleted. While it has pods that need the disk, the disk is not detached, but it is not attached either.
    pub is_deleted: bool,
    /// Why the disk must not be detached, according to the node as it was read from the server just before.
    pub detach_blocker: Option<String>,
}

/// What a driver does with a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Attach,
    Detach,
}

/// The operation whose last attempt has failed. It does not delay the other one: a disk that could not be attached is detached at
/// once when it is no longer needed, and the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub operation: Operation,
    /// Whether the backoff before its next attempt has not passed.
    pub is_backing_off: bool,
}

/// What is known about a FlexVolume on a node. Nothing but `status.volumesAttached` shows it to other processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlexState {
    /// Whether the driver is installed and attaches volumes.
    pub is_driver_installed: bool,
    pub attachment: FlexAttachment,
    /// How long ago it was attached, or last checked that it is.
    pub attached_for: Duration,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FlexAttachment {
    #[default]
    None,
    /// With the path of the device on the node, which may be empty.
    Attached(SmolStr),
    /// An attempt to attach or detach it has failed.
    Uncertain,
    /// The driver says that it is no longer attached, though it is in `status.volumesAttached`.
    Lost,
}

/// What the status and the taints of a node say about it and a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeState {
    /// The disk is in `status.volumesInUse`, or was when the node was deleted.
    pub is_mounted: bool,
    pub is_healthy: bool,
    /// It has the out-of-service taint.
    pub is_out_of_service: bool,
}

impl NodeState {
    pub fn of(node: &Node, disk: &str) -> Self {
        Self {
            is_mounted: node
                .status
                .volumes_in_use
                .iter()
                .any(|name| is_name_of(name, disk, &node.metadata.name)),
            is_healthy: node.is_ready(),
            is_out_of_service: node.is_declared_out_of_service(),
        }
    }
}

/// Whether a disk is in `status.volumesAttached` of a node.
pub fn reports(node: &Node, disk: &str) -> bool {
    node.status.volumes_attached.iter().any(|volume| is_name_of(&volume.name, disk, &node.metadata.name))
}

/// Whether a VolumeAttachment is for an inline volume of a pod. These are volumes of in-tree plugins that CSI drivers have replaced.
pub fn is_inline(attachment: &VolumeAttachment) -> bool {
    attachment.spec.source.inline_volume_spec.is_some()
}

/// The path of the device of a disk in `status.volumesAttached` of a node.
pub fn device_of(node: &Node, disk: &str) -> Option<SmolStr> {
    let attached = node.status.volumes_attached.iter().find(|volume| volume.name == disk);
    attached.map(|volume| volume.device_path.clone())
}

/// Why a disk is detached without a live read of the node that confirms that it is not mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// [`UNMOUNT_TIMEOUT`] has passed.
    Timeout,
    /// The node has the out-of-service taint.
    OutOfService,
}

impl DiskOnNode<'_> {
    /// Whether the disk is attached to the node, or the node may be about to attach it.
    pub fn is_present(&self) -> bool {
        self.is_reported || self.is_node_attach_allowed || self.is_attached()
    }

    /// Whether the driver reports the disk as attached.
    pub fn is_attached(&self) -> bool {
        self.attachment.is_some_and(|attachment| attachment.status.attached)
            || matches!(self.flex_attachment(), FlexAttachment::Attached(_))
    }

    pub fn flex_attachment(&self) -> &FlexAttachment {
        self.flex.as_ref().map_or(&FlexAttachment::None, |flex| &flex.attachment)
    }

    /// Whether it is a FlexVolume whose driver is not installed, so that nothing can be done about it.
    pub fn lacks_driver(&self) -> bool {
        self.flex.as_ref().is_some_and(|flex| !flex.is_driver_installed)
    }

    /// Whether the disk is attached, or may be, or may become so: a driver may act on a VolumeAttachment at any time, also after
    /// a failure. Only when the VolumeAttachment is gone, the disk can be attached to another node. A FlexVolume may be attached
    /// until its driver has detached it.
    pub fn may_be_present(&self) -> bool {
        self.is_present() || self.needs_detach()
    }

    /// Whether a driver has attached the disk, or may have, so that a driver has to detach it.
    pub fn needs_detach(&self) -> bool {
        let is_flex =
            matches!(self.flex_attachment(), FlexAttachment::Attached(_) | FlexAttachment::Uncertain);
        self.attachment.is_some() || is_flex
    }

    /// Whether the driver is attaching or detaching the disk, and has neither reported an error nor exceeded its time.
    pub fn is_in_progress(&self) -> bool {
        self.attachment.is_some_and(|attachment| {
            let status = &attachment.status;
            if attachment.metadata.is_deleting() {
                status.detach_error.is_none() && !self.has_failed(Operation::Detach)
            } else {
                let is_kept = self.desired.is_none() && self.state.is_mounted;
                let has_failed = status.attach_error.is_some() || self.has_failed(Operation::Attach);
                !status.attached && !has_failed && !is_kept
            }
        })
    }

    /// Whether the last attempt to do this has failed.
    pub fn has_failed(&self, operation: Operation) -> bool {
        self.failure.is_some_and(|failure| failure.operation == operation)
    }

    /// Whether that has failed, and the next attempt is not due.
    pub fn is_backing_off(&self, operation: Operation) -> bool {
        self.failure.is_some_and(|failure| failure.operation == operation && failure.is_backing_off)
    }

    /// Whether the disk, which no pod on the node needs, may be detached now.
    pub fn may_detach(&self, force_on_timeout: bool) -> bool {
        let NodeState { is_mounted, is_healthy, is_out_of_service } = self.state;
        !is_mounted
            || is_out_of_service
            || (!is_healthy && force_on_timeout && self.undesired_for > UNMOUNT_TIMEOUT)
    }

    /// Why the node need not be read from the server before the disk is detached; `None` if it must be.
    pub fn force(&self, force_on_timeout: bool) -> Option<Force> {
        if force_on_timeout && self.undesired_for > UNMOUNT_TIMEOUT {
            Some(Force::Timeout)
        } else {
            self.state.is_out_of_service.then_some(Force::OutOfService)
        }
    }
}

/// What the caches show about one disk, by node.
pub(super) struct Observed {
    pub(super) desired: BTreeMap<SmolStr, DesiredAttachment>,
    pub(super) attachments: BTreeMap<SmolStr, Arc<VolumeAttachment>>,
    /// If it is a FlexVolume: whether its driver is installed and attaches volumes.
    pub(super) is_driver_installed: Option<bool>,
    /// All nodes that have the disk or have pods that need it; `None` for a node that does not exist.
    pub(super) nodes: BTreeMap<SmolStr, Option<Arc<Node>>>,
}

impl Observed {
    /// The part of it that the ledger records.
    pub(super) fn observations(&self, disk: &str) -> impl Iterator<Item = (&str, Observation)> {
        self.nodes.iter().map(move |(name, node)| {
            let attachment = self.attachments.get(name);
            let is_flex = self.is_driver_installed.is_some();
            let device = node.as_ref().filter(|_| is_flex).and_then(|node| device_of(node, disk));
            let observation = Observation {
                is_desired: self.desired.contains_key(name),
                is_reported: node.as_ref().is_some_and(|node| reports(node, disk)),
                is_attaching: attachment.is_some_and(|found| !found.status.attached),
                is_attached: attachment.is_some_and(|found| found.status.attached),
                is_inline: attachment.is_some_and(|found| is_inline(found)),
                flex_device: device,
            };
            (name.as_str(), observation)
        })
    }

    /// The state of the disk on each node, together with what the ledger has recorded.
    pub(super) fn on_nodes<'a>(&'a self, ledger: &Ledger, disk: &str, now: Instant) -> Vec<DiskOnNode<'a>> {
        let on_node = |(name, node): (&'a SmolStr, &'a Option<Arc<Node>>)| {
            let state = match node {
                Some(node) => NodeState::of(node, disk),
                None => NodeState { is_mounted: ledger.was_mounted(name, disk), ..NodeState::default() },
            };
            let is_reported = node.as_ref().is_some_and(|node| reports(node, disk));
            let flex = self.is_driver_installed.map(|is_driver_installed| {
                let device = node.as_ref().and_then(|node| device_of(node, disk));
                FlexState { is_driver_installed, ..ledger.flex(disk, name, device, now) }
            });
            DiskOnNode {
                node: name,
                desired: self.desired.get(name),
                attachment: self.attachments.get(name).map(|found| &**found),
                is_reported: is_reported || ledger.is_reporting(name, disk),
                state,
                is_unmanaged: node.as_ref().is_some_and(|node| !is_managed(node)),
                is_deleted: node.is_none(),
                flex,
                ..ledger.on_node(disk, name, now)
            }
        };
        self.nodes.iter().map(on_node).collect()
    }
}
