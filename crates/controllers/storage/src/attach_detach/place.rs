//! One disk on one node: what the caches and the ledger show about it. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Node, VolumeAttachment};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::ledger::{Ledger, Sighting};
use super::wants::{Want, is_managed};
use crate::disk::is_name_of;

/// How long an unhealthy node may take to unmount a disk before the disk is detached by force.
pub const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(6 * 60);

/// One disk on one node.
#[derive(Debug, Clone, Default)]
pub struct Place<'a> {
    pub node: &'a str,
    /// The pods that want the disk there.
    pub want: Option<&'a Want>,
    /// The VolumeAttachment for this disk and node.
    pub attachment: Option<&'a VolumeAttachment>,
    /// Whether the status of the node names the disk as attached, or a write that says so is in flight.
    pub is_reported: bool,
    /// Whether the status of the node has named the disk since it was attached, now or before the node was registered anew.
    pub was_reported: bool,
    /// Whether the node was allowed to attach the disk by itself.
    pub is_admitted: bool,
    pub state: NodeState,
    /// For how long no pod on the node has wanted the disk.
    pub unwanted_for: Duration,
    /// For how long the driver has been attaching it.
    pub attaching_for: Duration,
    /// Whether the last attempt failed.
    pub has_failed: bool,
    /// Whether the last attempt failed and the next one is not due yet.
    pub is_backing_off: bool,
    /// Whether the deletion of the VolumeAttachment is in flight.
    pub is_detaching: bool,
    /// Whether the pods that wait for the disk have got the event that other nodes have it.
    pub is_announced: bool,
    /// Whether the node lacks the annotation: its disks are not attached or detached here, but they count.
    pub is_unmanaged: bool,
    /// Whether the node was deleted. Its disks are kept while there are pods that want them, but none is attached to it.
    pub is_deleted: bool,
    /// Why the server's version of the node forbids to detach the disk; read just before a detach.
    pub refusal: Option<String>,
}

/// What a node says about itself and a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Its status has the disk in `volumesInUse`, or had it when the node was deleted.
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

/// Whether the status of a node names a disk as attached.
pub fn reports(node: &Node, disk: &str) -> bool {
    node.status.volumes_attached.iter().any(|volume| is_name_of(&volume.name, disk, &node.metadata.name))
}

/// Why a disk is detached without asking the server once more whether the node has it mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// [`UNMOUNT_TIMEOUT`] has passed.
    Timeout,
    /// The node has the out-of-service taint.
    OutOfService,
}

impl Place<'_> {
    /// Whether the disk is there for certain.
    pub fn is_held(&self) -> bool {
        self.is_reported || self.is_admitted || self.is_attached()
    }

    /// Whether the driver has attached it.
    pub fn is_attached(&self) -> bool {
        self.attachment.is_some_and(|attachment| attachment.status.attached)
    }

    /// Whether the disk is there, or may be, or may still be attached: a driver may act on a VolumeAttachment at any time,
    /// also after a failure. The disk is free for another node only once the VolumeAttachment is gone.
    pub fn may_have_it(&self) -> bool {
        self.is_held() || self.attachment.is_some()
    }

    /// Whether the driver is attaching or detaching the disk and has not failed so far.
    pub fn is_busy(&self) -> bool {
        self.attachment.is_some_and(|attachment| {
            let status = &attachment.status;
            if attachment.metadata.is_deleting() {
                status.detach_error.is_none()
            } else {
                let is_kept = self.want.is_none() && self.state.is_mounted;
                !status.attached && status.attach_error.is_none() && !is_kept
            }
        })
    }

    /// Whether a disk that no pod wants may be detached now.
    pub fn may_detach(&self, forces: bool) -> bool {
        let NodeState { is_mounted, is_healthy, is_out_of_service } = self.state;
        !is_mounted || is_out_of_service || (!is_healthy && forces && self.unwanted_for > UNMOUNT_TIMEOUT)
    }

    /// Why the server need not be asked before the disk is detached.
    pub fn force(&self, forces: bool) -> Option<Force> {
        if forces && self.unwanted_for > UNMOUNT_TIMEOUT {
            Some(Force::Timeout)
        } else {
            self.state.is_out_of_service.then_some(Force::OutOfService)
        }
    }
}

/// What the caches show about one disk, by node.
pub(super) struct Observed {
    pub(super) wants: BTreeMap<SmolStr, Want>,
    pub(super) attachments: BTreeMap<SmolStr, Arc<VolumeAttachment>>,
    /// The nodes that have the disk or want it; `None` for one that does not exist.
    pub(super) nodes: BTreeMap<SmolStr, Option<Arc<Node>>>,
}

impl Observed {
    /// What the ledger has to know about each node.
    pub(super) fn sightings(&self, disk: &str) -> impl Iterator<Item = (&str, Sighting)> {
        self.nodes.iter().map(move |(name, node)| {
            let attachment = self.attachments.get(name);
            let sighting = Sighting {
                is_wanted: self.wants.contains_key(name),
                is_reported: node.as_ref().is_some_and(|node| reports(node, disk)),
                is_attaching: attachment.is_some_and(|found| !found.status.attached),
                is_attached: attachment.is_some_and(|found| found.status.attached),
            };
            (name.as_str(), sighting)
        })
    }

    /// The disk on each of the nodes, with what the ledger has about it.
    pub(super) fn places<'a>(&'a self, ledger: &Ledger, disk: &str, now: Instant) -> Vec<Place<'a>> {
        let place = |(name, node): (&'a SmolStr, &'a Option<Arc<Node>>)| {
            let state = match node {
                Some(node) => NodeState::of(node, disk),
                None => NodeState { is_mounted: ledger.was_mounted(name, disk), ..NodeState::default() },
            };
            let is_reported = node.as_ref().is_some_and(|node| reports(node, disk));
            Place {
                node: name,
                want: self.wants.get(name),
                attachment: self.attachments.get(name).map(|found| &**found),
                is_reported: is_reported || ledger.is_reporting(name, disk),
                state,
                is_unmanaged: node.as_ref().is_some_and(|node| !is_managed(node)),
                is_deleted: node.is_none(),
                ..ledger.place(disk, name, now)
            }
        };
        self.nodes.iter().map(place).collect()
    }
}
