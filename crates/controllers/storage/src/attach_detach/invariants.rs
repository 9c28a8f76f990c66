//! What must hold for every plan for a disk or for the status of a node, and what must hold on the server at any time.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::node::AttachedVolume;
use flyball_api::{Node, PersistentVolume, VolumeAttachment};
use smol_str::SmolStr;

use super::caches::inline_volume;
use super::disk_on_node::{DiskOnNode, Force};
use super::plan::View;
use super::report;
use super::steps::Step;
use crate::disk::Disk;

/// Checks that no exclusive disk is attached to two nodes, or may become so: a node counts if it has the disk in
/// `status.volumesAttached`, or if there is a VolumeAttachment for it, in any state. To be called after every write with the
/// objects of the server, not of the caches.
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
            Err(format!("{disk} is exclusive, and is or may become attached to {nodes:?}"))
        }
        None => Ok(()),
    }
}

/// Checks the steps that are planned for one disk.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>) -> Result<(), String> {
    let (nodes, steps) = (&view.nodes, view.steps());
    let on_node = |node: &str| nodes.iter().find(|on_node| on_node.node == node);
    let is = |node: &str, holds: fn(&DiskOnNode<'_>) -> bool| on_node(node).is_some_and(holds);
    let is_exclusive =
        nodes.iter().filter_map(|on_node| on_node.desired).any(|desired| desired.disk.is_exclusive);
    let attached: Vec<&str> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Attach(node) | Step::AllowNodeAttach(node) => Some(*node),
            _ => None,
        })
        .collect();
    let is_elsewhere = |node: &str| nodes.iter().any(|other| other.node != node && other.may_be_present());
    let detached = || {
        steps.iter().filter_map(|step| match step {
            Step::Detach(node, force) => Some((*node, *force)),
            _ => None,
        })
    };
    let rules = [
        (
            "nothing is attached to a node without pods that need it",
            attached.iter().all(|node| is(node, |at| at.desired.is_some())),
        ),
        ("nothing is attached to a deleted node", attached.iter().all(|node| is(node, |at| !at.is_deleted))),
        (
            "nothing is attached to a node that has it",
            attached.iter().all(|node| is(node, |at| !at.is_present())),
        ),
        ("an exclusive disk is attached to one node", !is_exclusive || attached.len() <= 1),
        (
            "an exclusive disk is attached only if no other node has it or may get it",
            !is_exclusive || !attached.iter().any(|node| is_elsewhere(node)),
        ),
        (
            "nothing is detached from a node with pods that need it",
            detached().all(|(node, _)| is(node, |at| at.desired.is_none())),
        ),
        (
            "nothing is detached from unmanaged nodes",
            detached().all(|(node, _)| is(node, |at| !at.is_unmanaged)),
        ),
        (
            "no FlexVolume is detached without a driver",
            detached().all(|(node, _)| is(node, |at| !at.lacks_driver())),
        ),
        (
            "nothing is detached while it is in volumesAttached of its node",
            detached().all(|(node, _)| is(node, |at| !at.is_reported)),
        ),
        (
            "nothing mounted is detached, except from a node that is out of service or unhealthy",
            detached().all(|(node, force)| match force {
                None => is(node, |at| !at.state.is_mounted),
                Some(Force::OutOfService) => is(node, |at| at.state.is_out_of_service),
                Some(Force::Timeout) => {
                    is(node, |at| !at.state.is_mounted || !at.state.is_healthy || at.state.is_out_of_service)
                }
            }),
        ),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {steps:?}")))
}

/// Checks what is added to and removed from `status.volumesAttached` of a node.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_report(view: &report::View<'_>, report: &report::Report<'_>) -> Result<(), String> {
    let listed = &view.node.status.volumes_attached;
    let is_on = |list: &[AttachedVolume], disk: &str| list.iter().any(|volume| volume.name == disk);
    let entry = |disk: &str| view.entries.iter().find(|entry| entry.disk == disk);
    let is = |disk: &str, holds: &dyn Fn(&DiskOnNode<'_>) -> bool| {
        entry(disk).is_some_and(|entry| holds(&entry.on_node))
    };
    let added = || report.volumes.iter().filter(|volume| !is_on(listed, &volume.name));
    let removed = || listed.iter().filter(|volume| !is_on(&report.volumes, &volume.name));
    let all_added = |holds: &dyn Fn(&DiskOnNode<'_>) -> bool| added().all(|volume| is(&volume.name, holds));
    let none_removed =
        |holds: &dyn Fn(&DiskOnNode<'_>) -> bool| !removed().any(|volume| is(&volume.name, holds));
    let is_kept = |at: &DiskOnNode<'_>| {
        let state = at.state;
        at.is_attached() && state.is_mounted && state.is_healthy && !state.is_out_of_service
    };
    let rules = [
        ("nothing is added that no pod on the node needs", all_added(&|at| at.desired.is_some())),
        ("nothing is added that is being detached", all_added(&|at| !at.is_detaching)),
        (
            "nothing is added that is not attached, unless the node attaches it",
            all_added(&|at| at.is_attached() || at.is_node_attach_allowed),
        ),
        (
            "nothing is removed of which nothing is known",
            removed().all(|volume| entry(&volume.name).is_some()),
        ),
        (
            "nothing is removed that is attached and needed",
            none_removed(&|at| at.is_attached() && at.desired.is_some()),
        ),
        ("nothing is removed that is mounted on a healthy node", none_removed(&is_kept)),
        ("nothing is removed without its driver", none_removed(&|at| at.lacks_driver())),
    ];
    let broken = rules.iter().find(|(_, holds)| !holds);
    broken.map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {listed:?} becomes {:?}", report.volumes)))
}
