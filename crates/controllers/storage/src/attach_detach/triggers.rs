//! Which changes matter, and to which disks. Pure.

use std::collections::BTreeSet;

use flyball_api::node::AttachedVolume;
use flyball_api::pod::Pod;
use flyball_api::{CSIDriver, Node, VolumeAttachment};
use flyball_cache::Change;
use smol_str::SmolStr;

use super::wants::{is_managed, wants_disks};

/// Whether a change of a pod changes which disks are wanted.
pub fn pod_changed(change: &Change<'_, Pod>) -> bool {
    let wants = |pod: Option<&std::sync::Arc<Pod>>| {
        pod.is_some_and(|pod| wants_disks(pod) && !pod.spec.volumes.is_empty())
    };
    match (wants(change.old), wants(change.new)) {
        (false, false) => false,
        // The version of the pod that is seen first may have been found by listing again.
        (true, true) => !change.origin.is_fresh() || is_another(change),
        _ => true,
    }
}

fn is_another(change: &Change<'_, Pod>) -> bool {
    let uid = |pod: Option<&std::sync::Arc<Pod>>| pod.map(|pod| pod.metadata.uid.clone());
    uid(change.old) != uid(change.new)
}

/// The disks whose case a change of a node changes; `None` if it does not matter at all.
pub fn node_changed(change: &Change<'_, Node>) -> Option<BTreeSet<SmolStr>> {
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

/// Whether a change of an attachment is more than somebody's note on it.
pub fn attachment_changed(change: &Change<'_, VolumeAttachment>) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else { return true };
    old.status != new.status || old.metadata.is_deleting() != new.metadata.is_deleting()
}

/// Whether a driver's volumes have begun or ceased to need attaching.
pub fn driver_changed(change: &Change<'_, CSIDriver>) -> bool {
    let needs_none = |driver: Option<&std::sync::Arc<CSIDriver>>| {
        driver.is_some_and(|driver| driver.spec.attach_required == Some(false))
    };
    needs_none(change.old) != needs_none(change.new)
}

/// The disks that a node names, before or after.
fn names<'a>(change: &Change<'a, Node>) -> impl Iterator<Item = SmolStr> {
    let both = change.old.into_iter().chain(change.new);
    both.flat_map(|node| {
        let attached = node.status.volumes_attached.iter().map(|AttachedVolume { name, .. }| name.clone());
        attached.chain(node.status.volumes_in_use.iter().cloned())
    })
}
