//! Which disks and nodes to sync after a change. Pure: a function of the change and of the caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::node::AttachedVolume;
use flyball_api::pod::Pod;
use flyball_api::{CSIDriver, Node, PersistentVolume, PersistentVolumeClaim, VolumeAttachment};
use flyball_cache::Change;
use smol_str::SmolStr;

use super::caches::{Caches, is_managed, needs_disks};
use crate::disk::Disk;
use crate::usage::pods_of;

/// The disks and nodes to sync after a change, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Affected {
    pub(super) disks: Vec<SmolStr>,
    pub(super) nodes: Vec<SmolStr>,
}

/// The node of the pod, the disks that the pod needs or needed, and all disks that the node has. The latter because a disk that
/// the pod no longer needs may not be found through its claims any more.
pub(super) fn pod_changed(change: &Change<'_, Pod>, caches: &Caches) -> Affected {
    let mut affected = Affected::default();
    if !changes_needed_disks(change) {
        return affected;
    }
    for pod in change.old.into_iter().chain(change.new) {
        let name = &pod.spec.node_name;
        let node = caches.node(name);
        let reported = node.iter().flat_map(|node| &node.status.volumes_attached);
        affected.disks.extend(reported.map(|volume| volume.name.clone()).chain(caches.names_for(pod)));
        affected.disks.extend(caches.orphans_at(name));
        affected.nodes.push(name.clone());
    }
    affected
}

/// The node, the disks in its status, those that its pods need, and those with VolumeAttachments for it.
pub(super) fn node_changed(change: &Change<'_, Node>, caches: &Caches) -> Affected {
    let Some(in_status) = disks_in_status(change) else { return Affected::default() };
    let node = change.key().name;
    let disks = in_status.into_iter().chain(caches.disks_at(&node)).collect();
    Affected { disks, nodes: vec![node] }
}

/// The disk behind a bound claim, and the nodes of the pods that use it.
pub(super) fn claim_changed(change: &Change<'_, PersistentVolumeClaim>, caches: &Caches) -> Affected {
    let volume = change.new.and_then(|claim| caches.lookup.bound_volume(claim));
    let Some(disk) = volume.and_then(|volume| Disk::of_volume(&volume)) else { return Affected::default() };
    let pods = pods_of(caches.pods.store(), &change.key());
    Affected { disks: vec![disk.name], nodes: pods.iter().map(|pod| pod.spec.node_name.clone()).collect() }
}

/// The disks of the volume, before and after.
pub(super) fn volume_changed(change: &Change<'_, PersistentVolume>) -> Affected {
    let both = [change.old, change.new].into_iter().flatten();
    let disks = both.filter_map(|volume| Disk::of_volume(volume)).map(|disk| disk.name);
    Affected { disks: disks.collect(), nodes: vec![] }
}

/// The disk and the node of a VolumeAttachment.
pub(super) fn attachment_changed(change: &Change<'_, VolumeAttachment>, caches: &Caches) -> Affected {
    let Some(attachment) = change.new.or(change.old).filter(|_| is_attachment_changed(change)) else {
        return Affected::default();
    };
    let disk = caches.disk_name_of(attachment);
    Affected { disks: disk.into_iter().collect(), nodes: vec![attachment.spec.node_name.clone()] }
}

/// All disks of a driver, if `attachRequired` has changed. This walks over all volumes; it happens only when a driver is installed.
pub(super) fn driver_changed(change: &Change<'_, CSIDriver>, caches: &Caches) -> Affected {
    let needs_no_attach = |driver: Option<&Arc<CSIDriver>>| {
        driver.is_some_and(|driver| driver.spec.attach_required == Some(false))
    };
    let is_changed = needs_no_attach(change.old) != needs_no_attach(change.new);
    let disks = if is_changed { caches.disks_of_driver(&change.key().name) } else { vec![] };
    Affected { disks, nodes: vec![] }
}

/// Whether a pod begins or ceases to need disks.
pub(super) fn changes_needed_disks(change: &Change<'_, Pod>) -> bool {
    let needs =
        |pod: Option<&Arc<Pod>>| pod.is_some_and(|pod| needs_disks(pod) && !pod.spec.volumes.is_empty());
    match (needs(change.old), needs(change.new)) {
        (false, false) => false,
        // A relist may show another pod of the same name, without a deletion in between.
        (true, true) => !change.origin.is_fresh() || is_another(change),
        _ => true,
    }
}

fn is_another(change: &Change<'_, Pod>) -> bool {
    let uid = |pod: Option<&Arc<Pod>>| pod.map(|pod| pod.metadata.uid.clone());
    uid(change.old) != uid(change.new)
}

/// The disks in `status.volumesAttached` and `status.volumesInUse`, before and after; `None` if nothing changed that matters here.
pub(super) fn disks_in_status(change: &Change<'_, Node>) -> Option<BTreeSet<SmolStr>> {
    let (Some(old), Some(new)) = (change.old, change.new) else {
        return is_managed(change.object()).then(|| status_disks(change).collect());
    };
    let is_same = is_managed(old) == is_managed(new)
        && old.status.volumes_attached == new.status.volumes_attached
        && old.status.volumes_in_use == new.status.volumes_in_use
        && old.is_ready() == new.is_ready()
        && old.is_declared_out_of_service() == new.is_declared_out_of_service();
    (!is_same || !change.origin.is_fresh()).then(|| status_disks(change).collect())
}

fn is_attachment_changed(change: &Change<'_, VolumeAttachment>) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else { return true };
    old.status != new.status || old.metadata.is_deleting() != new.metadata.is_deleting()
}

fn status_disks<'a>(change: &Change<'a, Node>) -> impl Iterator<Item = SmolStr> {
    let both = change.old.into_iter().chain(change.new);
    both.flat_map(|node| {
        let attached = node.status.volumes_attached.iter().map(|AttachedVolume { name, .. }| name.clone());
        attached.chain(node.status.volumes_in_use.iter().cloned())
    })
}
