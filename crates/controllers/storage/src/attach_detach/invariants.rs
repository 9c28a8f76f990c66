//! What must hold for everything that is done about a disk, for tables and properties; and what must hold on the server
//! at any time, for the simulator.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::{Node, PersistentVolume, VolumeAttachment};
use smol_str::SmolStr;

use super::plan::{Force, Place, Step};
use super::wants::inline_volume;
use crate::disk::Disk;

/// Checks that no disk which may be on one node only is on two, or may come to be: a node has it that its status says is
/// attached, or that its driver was asked to attach it to, whether that is done, has failed or is being undone. To be
/// asked after every write, of what is on the server and not of what caches show.
///
/// # Errors
/// The disk and the nodes, in words.
pub fn one_node_each<'a>(
    volumes: impl IntoIterator<Item = &'a PersistentVolume>,
    attachments: impl IntoIterator<Item = &'a VolumeAttachment>,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Result<(), String> {
    let disks: Vec<(&str, Disk)> = volumes
        .into_iter()
        .filter_map(|volume| Some((volume.metadata.name.as_str(), Disk::of_volume(volume)?)))
        .collect();
    let mut holders: BTreeMap<SmolStr, BTreeSet<&str>> = BTreeMap::new();
    for attachment in attachments {
        let source = attachment.spec.source.persistent_volume_name.as_deref();
        let of_volume = disks.iter().find(|(volume, _)| Some(*volume) == source);
        let disk = of_volume.map(|(_, disk)| disk.name.clone());
        if let Some(disk) = disk.or_else(|| inline_volume(attachment).map(|volume| volume.name())) {
            holders.entry(disk).or_default().insert(&attachment.spec.node_name);
        }
    }
    for node in nodes {
        for volume in &node.status.volumes_attached {
            holders.entry(volume.name.clone()).or_default().insert(&node.metadata.name);
        }
    }
    let exclusive = disks.iter().filter(|(_, disk)| disk.is_exclusive);
    let twice = exclusive.filter_map(|(_, disk)| Some((&disk.name, holders.get(&disk.name)?)));
    match twice.into_iter().find(|(_, nodes)| nodes.len() > 1) {
        Some((disk, nodes)) => {
            Err(format!("{disk} may be on one node, and is or may come to be on {nodes:?}"))
        }
        None => Ok(()),
    }
}

/// Checks the steps that are planned for one disk.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(places: &[Place<'_>], steps: &[Step<'_>]) -> Result<(), String> {
    let place = |node: &str| places.iter().find(|place| place.node == node);
    let is = |node: &str, holds: fn(&Place<'_>) -> bool| place(node).is_some_and(holds);
    let is_exclusive = places.iter().filter_map(|place| place.want).any(|want| want.disk.is_exclusive);
    let brought: Vec<&str> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Attach(node) | Step::Admit(node) => Some(*node),
            _ => None,
        })
        .collect();
    let is_elsewhere = |node: &str| {
        let may_have_it = |other: &Place<'_>| other.is_held() || other.attachment.is_some();
        places.iter().any(|other| other.node != node && may_have_it(other))
    };
    let detached = || {
        steps.iter().filter_map(|step| match step {
            Step::Detach(node, force) => Some((*node, *force)),
            _ => None,
        })
    };
    let rules = [
        ("nothing comes where nobody wants it", brought.iter().all(|node| is(node, |at| at.want.is_some()))),
        ("nothing comes where it is", brought.iter().all(|node| is(node, |at| !at.is_held()))),
        ("an exclusive disk comes to one node", !is_exclusive || brought.len() <= 1),
        (
            "an exclusive disk comes only when no other node has it, or was promised it",
            !is_exclusive || !brought.iter().any(|node| is_elsewhere(node)),
        ),
        (
            "nothing goes from where it is wanted",
            detached().all(|(node, _)| is(node, |at| at.want.is_none())),
        ),
        (
            "nothing goes from nodes that see to their disks themselves",
            detached().all(|(node, _)| is(node, |at| !at.is_left_alone)),
        ),
        (
            "nothing goes while its node's status names it",
            detached().all(|(node, _)| is(node, |at| !at.is_reported)),
        ),
        (
            "nothing goes that is mounted, but from a node that is down or not well",
            detached().all(|(node, force)| match force {
                None => is(node, |at| !at.stand.is_mounted),
                Some(Force::OutOfService) => is(node, |at| at.stand.is_out_of_service),
                Some(Force::Timeout) => {
                    is(node, |at| !at.stand.is_mounted || !at.stand.is_healthy || at.stand.is_out_of_service)
                }
            }),
        ),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {steps:?}")))
}
