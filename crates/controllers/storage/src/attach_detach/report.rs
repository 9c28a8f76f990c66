//! What the status of a node is to say about attached disks. Pure.

use flyball_api::node::AttachedVolume;

use super::plan::Place;
use crate::disk::{Attacher, DriverVolume};

/// A disk that the node's status names, or is to name.
pub struct Entry<'a> {
    pub disk: &'a str,
    /// The disk on this node.
    pub place: Place<'a>,
}

/// The new list, and which disks are new on it.
#[derive(Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// All disks that are attached.
    pub volumes: Vec<AttachedVolume>,
    /// Those that were not on the list before.
    pub new: Vec<&'a str>,
}

/// What the status is to say; `None` if it says so already. `said` is what it says now.
pub fn report<'a>(said: &[AttachedVolume], entries: &[Entry<'a>], forces: bool) -> Option<Report<'a>> {
    let entry = |disk: &str| entries.iter().find(|entry| entry.disk == disk);
    let stays = |volume: &&AttachedVolume| entry(&volume.name).is_none_or(|entry| stays(entry, forces));
    let mut volumes: Vec<AttachedVolume> = said.iter().filter(stays).cloned().collect();
    let new: Vec<&str> = entries.iter().filter(|entry| comes(entry)).map(|entry| entry.disk).collect();
    volumes
        .extend(new.iter().map(|disk| AttachedVolume { name: (*disk).into(), ..AttachedVolume::default() }));
    (volumes != said).then_some(Report { volumes, new })
}

/// Whether a disk that is on the list stays there: while it is attached, and wanted or still in use.
fn stays(entry: &Entry<'_>, forces: bool) -> bool {
    let Entry { disk, place } = entry;
    let is_there = match place.want {
        Some(want) => matches!(want.disk.by, Attacher::Node) || place.is_attached(),
        None => DriverVolume::named(disk).is_none() || place.is_attached(),
    };
    is_there && (place.want.is_some() || !place.may_leave(forces))
}

/// Whether a disk comes onto the list.
fn comes(entry: &Entry<'_>) -> bool {
    let Place { want: Some(want), attachment, is_reported: false, is_admitted, is_leaving: false, .. } =
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
