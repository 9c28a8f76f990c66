//! What `volumesAttached` in the status of a node is to say. Pure.

use flyball_api::node::AttachedVolume;
use flyball_api::{Node, Object};
use flyball_client::Patch;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{ErrorKinds, Event, Plan, Write};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::messages;
use super::place::Place;
use crate::disk::{Attacher, DriverVolume};

const ATTACHED: &str = "SuccessfulAttachVolume";

/// A node with the disks that its status names or is to name.
pub struct View<'a> {
    pub node: &'a Node,
    pub entries: Vec<Entry<'a>>,
    /// Whether disks may be detached by force from unhealthy nodes.
    pub forces: bool,
}

/// A disk that the node's status names, or is to name.
pub struct Entry<'a> {
    pub disk: &'a str,
    /// The disk on this node.
    pub place: Place<'a>,
}

/// The new list, and which disks are new on it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report<'a> {
    pub volumes: Vec<AttachedVolume>,
    pub new: Vec<&'a str>,
    /// Those of the new ones that have just been attached. The others were on the list of a node that was registered anew.
    pub attached: Vec<&'a str>,
    /// Disks that nodes attach by themselves and that are no longer on the list: they count as detached.
    pub detached: Vec<SmolStr>,
}

/// The patch of the node's status, if it is due, and the events for the pods whose disks have just been attached.
pub fn plan(view: &View<'_>) -> Plan {
    let Some(Report { volumes, attached, .. }) = report(view) else { return Plan::default() };
    let list = if volumes.is_empty() { Value::Null } else { json!(volumes) };
    let patch = Patch::Strategic(json!({"status": {"volumesAttached": list}}));
    let patch = Write::patch::<Node>(view.node.key(), patch)
        .subresource("status")
        .why(format!("{} disks are attached", volumes.len()))
        .ignore(ErrorKinds::NOT_FOUND);
    let attached = view.entries.iter().filter(|entry| attached.contains(&entry.disk));
    let wants = attached.filter_map(|entry| entry.place.want);
    let events = wants.flat_map(|want| {
        let message = messages::attached(&want.disk);
        want.pods.iter().map(move |pod| Event::normal(ATTACHED, message.clone()).about(ObjectRef::of(&**pod)))
    });
    Plan::of([events.fold(patch, |patch, event| patch.on_success(event))])
}

/// What the status is to say; `None` if it says so already.
pub fn report<'a>(view: &View<'a>) -> Option<Report<'a>> {
    let View { entries, forces, .. } = view;
    let reported = &view.node.status.volumes_attached;
    let entry = |disk: &str| entries.iter().find(|entry| entry.disk == disk);
    let stays = |volume: &&AttachedVolume| entry(&volume.name).is_none_or(|entry| stays(entry, *forces));
    let mut volumes: Vec<AttachedVolume> = reported.iter().filter(stays).cloned().collect();
    let added = || entries.iter().filter(|entry| is_new(entry));
    let new: Vec<&str> = added().map(|entry| entry.disk).collect();
    let attached = added().filter(|entry| !entry.place.was_reported).map(|entry| entry.disk).collect();
    volumes
        .extend(new.iter().map(|disk| AttachedVolume { name: (*disk).into(), ..AttachedVolume::default() }));
    let left = reported.iter().filter(|volume| !volumes.contains(volume)).map(|volume| volume.name.clone());
    let detached = left.filter(|disk| DriverVolume::named(disk).is_none()).collect();
    (*volumes != **reported).then_some(Report { volumes, new, attached, detached })
}

/// Whether a disk that is on the list stays there: while it is attached, and wanted or still in use.
fn stays(entry: &Entry<'_>, forces: bool) -> bool {
    let Entry { disk, place } = entry;
    let is_there = match place.want {
        Some(want) => matches!(want.disk.by, Attacher::Node) || place.is_attached(),
        None => DriverVolume::named(disk).is_none() || place.is_attached(),
    };
    is_there && (place.want.is_some() || !place.may_detach(forces))
}

/// Whether a disk is to be added to the list.
fn is_new(entry: &Entry<'_>) -> bool {
    let Place { want: Some(want), attachment, is_reported: false, is_admitted, is_detaching: false, .. } =
        &entry.place
    else {
        return false;
    };
    match want.disk.by {
        Attacher::Node => *is_admitted,
        Attacher::Driver { .. } => {
            attachment.is_some_and(|found| found.status.attached && !found.metadata.is_deleting())
        }
    }
}
