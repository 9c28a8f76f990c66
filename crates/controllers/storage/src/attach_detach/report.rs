//! Decides on `status.volumesAttached` of a node, here called its list. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::node::AttachedVolume;
use flyball_api::{Node, Object, VolumeAttachment};
use flyball_client::Patch;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{ErrorKinds, Event, Plan, Write};
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::caches::{Caches, DesiredAttachment};
use super::disk_on_node::{DiskOnNode, FlexAttachment, FlexState, NodeState, device_of, reports};
use super::ledger::Ledger;
use super::messages;
use crate::disk::{Attacher, DriverVolume, flex_name};

const ATTACHED: &str = "SuccessfulAttachVolume";

/// A node with the disks that are on its list or may have to be.
pub struct View<'a> {
    pub node: &'a Node,
    pub entries: Vec<Entry<'a>>,
    /// See [`super::plan::View`].
    pub force_on_timeout: bool,
}

pub struct Entry<'a> {
    pub disk: &'a str,
    pub on_node: DiskOnNode<'a>,
}

/// Disks with their VolumeAttachments.
pub(super) type Found = Vec<(SmolStr, Option<Arc<VolumeAttachment>>)>;

/// The state of these disks on a node.
pub(super) fn entries<'a>(
    ledger: &Ledger,
    caches: &Caches,
    node: &'a Node,
    found: &'a Found,
    desired: &'a BTreeMap<SmolStr, DesiredAttachment>,
    now: Instant,
) -> Vec<Entry<'a>> {
    let name = node.metadata.name.as_str();
    let entry = |(disk, attachment): &'a (SmolStr, Option<Arc<VolumeAttachment>>)| {
        let on_node = ledger.on_node(disk, name, now);
        // A detach may be recorded under the name of the VolumeAttachment, see `Caches::orphan`.
        let is_orphan_detaching = attachment
            .as_ref()
            .is_some_and(|found| ledger.on_node(&found.metadata.name, name, now).is_detaching);
        let flex = caches.is_flex_driver_installed(disk).map(|is_driver_installed| {
            let state = ledger.flex(disk, name, device_of(node, disk), now);
            FlexState { is_driver_installed, ..state }
        });
        let on_node = DiskOnNode {
            flex,
            desired: desired.get(disk),
            attachment: attachment.as_deref(),
            is_reported: reports(node, disk),
            state: NodeState::of(node, disk),
            is_detaching: on_node.is_detaching || is_orphan_detaching,
            ..on_node
        };
        Entry { disk, on_node }
    };
    found.iter().map(entry).collect()
}

/// The new list, and how it differs from the present one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report<'a> {
    pub volumes: Vec<AttachedVolume>,
    pub added: Vec<&'a str>,
    /// The added disks that have just been attached. The others were on the list before the node was deleted and registered again.
    pub attached: Vec<&'a str>,
    /// The disks that nodes attach themselves, and that are no longer on the list. This counts as detaching them, since the node
    /// does that itself.
    pub detached: Vec<SmolStr>,
}

/// The patch of the list, if it changes, and the events for the pods whose disks have just been attached.
pub fn plan(view: &View<'_>) -> Plan {
    let Some(Report { volumes, attached, .. }) = report(view) else { return Plan::default() };
    let list = if volumes.is_empty() { Value::Null } else { json!(volumes) };
    let patch = Patch::Strategic(json!({"status": {"volumesAttached": list}}));
    let patch = Write::patch::<Node>(view.node.key(), patch)
        .subresource("status")
        .why(format!("{} volumes are attached", volumes.len()))
        .ignore(ErrorKinds::NOT_FOUND);
    let attached = view.entries.iter().filter(|entry| attached.contains(&entry.disk));
    let desired = attached.filter_map(|entry| entry.on_node.desired);
    let events = desired.flat_map(|desired| {
        let message = messages::attached(&desired.disk);
        desired
            .pods
            .iter()
            .map(move |pod| Event::normal(ATTACHED, message.clone()).about(ObjectRef::of(&**pod)))
    });
    Plan::of([events.fold(patch, |patch, event| patch.on_success(event))])
}

/// The new list; `None` if it does not change.
pub fn report<'a>(view: &View<'a>) -> Option<Report<'a>> {
    let View { entries, force_on_timeout, .. } = view;
    let reported = &view.node.status.volumes_attached;
    let entry = |disk: &str| entries.iter().find(|entry| entry.disk == disk);
    let stays = |volume: &&AttachedVolume| {
        entry(&volume.name).is_none_or(|entry| stays_on_list(entry, *force_on_timeout))
    };
    let mut volumes: Vec<AttachedVolume> = reported.iter().filter(stays).cloned().collect();
    let to_add = || entries.iter().filter(|entry| is_to_be_added(entry));
    let added: Vec<&str> = to_add().map(|entry| entry.disk).collect();
    let attached = to_add().filter(|entry| !entry.on_node.was_reported).map(|entry| entry.disk).collect();
    volumes.extend(to_add().map(|Entry { disk, on_node }| {
        let device_path = match on_node.flex_attachment() {
            FlexAttachment::Attached(device) => device.clone(),
            _ => SmolStr::default(),
        };
        AttachedVolume { name: (*disk).into(), device_path }
    }));
    let removed =
        reported.iter().filter(|volume| !volumes.contains(volume)).map(|volume| volume.name.clone());
    let is_node_disk = |disk: &SmolStr| DriverVolume::named(disk).is_none() && flex_name(disk).is_none();
    let detached = removed.filter(is_node_disk).collect();
    (*volumes != **reported).then_some(Report { volumes, added, attached, detached })
}

/// Whether a disk that is on the list stays there: it is attached, and it is needed or must not be detached yet.
fn stays_on_list(entry: &Entry<'_>, force_on_timeout: bool) -> bool {
    let Entry { disk, on_node } = entry;
    if on_node.lacks_driver() {
        return true;
    }
    let is_attached = match on_node.desired {
        Some(desired) => matches!(desired.disk.attacher, Attacher::Node) || on_node.is_attached(),
        None => {
            let has_driver = DriverVolume::named(disk).is_some() || on_node.flex.is_some();
            !has_driver || on_node.is_attached()
        }
    };
    is_attached && (on_node.desired.is_some() || !on_node.may_detach(force_on_timeout))
}

fn is_to_be_added(entry: &Entry<'_>) -> bool {
    let DiskOnNode {
        desired: Some(desired),
        attachment,
        is_reported: false,
        is_node_attach_allowed,
        is_detaching: false,
        ..
    } = &entry.on_node
    else {
        return false;
    };
    match desired.disk.attacher {
        Attacher::Node => *is_node_attach_allowed,
        Attacher::Flex(_) => entry.on_node.is_attached(),
        Attacher::Driver { .. } => {
            attachment.is_some_and(|found| found.status.attached && !found.metadata.is_deleting())
        }
    }
}
