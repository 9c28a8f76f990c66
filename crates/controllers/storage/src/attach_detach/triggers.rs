//! Which disks and nodes a change concerns. Pure: a function of the change and of what the caches show.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::node::AttachedVolume;
use flyball_api::pod::Pod;
use flyball_api::{CSIDriver, Node, PersistentVolume, PersistentVolumeClaim, VolumeAttachment};
use flyball_cache::Change;
use smol_str::SmolStr;

use super::wants::{Caches, is_managed, wants_disks};
use crate::disk::Disk;
use crate::usage::pods_of;

/// The disks and nodes to sync after a change, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Concerned {
    pub(super) disks: Vec<SmolStr>,
    pub(super) nodes: Vec<SmolStr>,
}

/// The node of a pod, and the disks of both. A disk that the pod leaves behind may no longer be found through its claims; the
/// status of its node names it.
pub(super) fn pod_changed(change: &Change<'_, Pod>, caches: &Caches) -> Concerned {
    let mut concerned = Concerned::default();
    if !is_want_changed(change) {
        return concerned;
    }
    for pod in change.old.into_iter().chain(change.new) {
        let name = &pod.spec.node_name;
        let node = caches.node(name);
        let reported = node.iter().flat_map(|node| &node.status.volumes_attached);
        concerned.disks.extend(reported.map(|volume| volume.name.clone()).chain(caches.names_for(pod)));
        concerned.disks.extend(caches.orphans_at(name));
        concerned.nodes.push(name.clone());
    }
    concerned
}

/// The node, the disks that it names, and those that are wanted on it or attached to it.
pub(super) fn node_changed(change: &Change<'_, Node>, caches: &Caches) -> Concerned {
    let Some(named) = disks_named(change) else { return Concerned::default() };
    let node = change.key().name;
    let disks = named.into_iter().chain(caches.disks_at(&node)).collect();
    Concerned { disks, nodes: vec![node] }
}

/// The disk behind a bound claim, and the nodes of the pods that use it.
pub(super) fn claim_changed(change: &Change<'_, PersistentVolumeClaim>, caches: &Caches) -> Concerned {
    let volume = change.new.and_then(|claim| caches.lookup.bound_volume(claim));
    let Some(disk) = volume.and_then(|volume| Disk::of_volume(&volume)) else { return Concerned::default() };
    let pods = pods_of(caches.pods.store(), &change.key());
    Concerned { disks: vec![disk.name], nodes: pods.iter().map(|pod| pod.spec.node_name.clone()).collect() }
}

/// The disk behind a volume, before and after.
pub(super) fn volume_changed(change: &Change<'_, PersistentVolume>) -> Concerned {
    let both = [change.old, change.new].into_iter().flatten();
    let disks = both.filter_map(|volume| Disk::of_volume(volume)).map(|disk| disk.name);
    Concerned { disks: disks.collect(), nodes: vec![] }
}

/// The disk and the node of a VolumeAttachment.
pub(super) fn attachment_changed(change: &Change<'_, VolumeAttachment>, caches: &Caches) -> Concerned {
    let Some(attachment) = change.new.or(change.old).filter(|_| is_attachment_changed(change)) else {
        return Concerned::default();
    };
    let disk = caches.disk_name_of(attachment);
    Concerned { disks: disk.into_iter().collect(), nodes: vec![attachment.spec.node_name.clone()] }
}

/// The disks of a driver, if they have begun or ceased to need attaching. This happens when a driver is installed, so it may
/// cost a look at all volumes.
pub(super) fn driver_changed(change: &Change<'_, CSIDriver>, caches: &Caches) -> Concerned {
    let is_exempt = |driver: Option<&Arc<CSIDriver>>| {
        driver.is_some_and(|driver| driver.spec.attach_required == Some(false))
    };
    let is_changed = is_exempt(change.old) != is_exempt(change.new);
    let disks = if is_changed { caches.disks_of_driver(&change.key().name) } else { vec![] };
    Concerned { disks, nodes: vec![] }
}

/// Whether a change of a pod changes which disks are wanted.
pub(super) fn is_want_changed(change: &Change<'_, Pod>) -> bool {
    let wants =
        |pod: Option<&Arc<Pod>>| pod.is_some_and(|pod| wants_disks(pod) && !pod.spec.volumes.is_empty());
    match (wants(change.old), wants(change.new)) {
        (false, false) => false,
        // A relist may replace a pod by another of its name, without a deletion in between.
        (true, true) => !change.origin.is_fresh() || is_another(change),
        _ => true,
    }
}

fn is_another(change: &Change<'_, Pod>) -> bool {
    let uid = |pod: Option<&Arc<Pod>>| pod.map(|pod| pod.metadata.uid.clone());
    uid(change.old) != uid(change.new)
}

/// The disks that a node names; `None` if nothing changed that matters here.
pub(super) fn disks_named(change: &Change<'_, Node>) -> Option<BTreeSet<SmolStr>> {
    let (Some(old), Some(new)) = (change.old, change.new) else {
        return is_managed(change.object()).then(|| names(change).collect());
    };
    let is_same = is_managed(old) == is_managed(new)
        && old.status.volumes_attached == new.status.volumes_attached
        && old.status.volumes_in_use == new.status.volumes_in_use
        && old.is_ready() == new.is_ready()
        && old.is_declared_out_of_service() == new.is_declared_out_of_service();
    (!is_same || !change.origin.is_fresh()).then(|| names(change).collect())
}

/// Whether a VolumeAttachment has another status or is being deleted.
fn is_attachment_changed(change: &Change<'_, VolumeAttachment>) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else { return true };
    old.status != new.status || old.metadata.is_deleting() != new.metadata.is_deleting()
}

/// The disks that a node names, before or after.
fn names<'a>(change: &Change<'a, Node>) -> impl Iterator<Item = SmolStr> {
    let both = change.old.into_iter().chain(change.new);
    both.flat_map(|node| {
        let attached = node.status.volumes_attached.iter().map(|AttachedVolume { name, .. }| name.clone());
        attached.chain(node.status.volumes_in_use.iter().cloned())
    })
}
