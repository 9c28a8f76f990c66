//! Brings disks to the nodes whose pods want them, and takes them away again.
//!
//! - **Promise**: a disk is attached to every node that has a pod which wants it, and to no other; one that can be on
//!   one node only is never asked for on two, not even while its driver is still at work on the first. No disk is taken from a node that says it is mounted, unless an
//!   operator has declared the node out of service, or the node is not well and had six minutes. A node's status names
//!   a disk only while it is attached and not about to be taken.
//! - **Watches** Pods, Nodes, claims, volumes, CSIDrivers and VolumeAttachments. **Writes** VolumeAttachments and
//!   `status.volumesAttached` of nodes. Nodes without the annotation `controller-managed-attach-detach` are left alone.
//! - Disks are brought by drivers, which VolumeAttachments ask; volumes written for plugins of old are read as those of
//!   the drivers that replaced them. Nodes attach iSCSI and Fibre Channel disks by themselves.
//! - Upstream: `pkg/controller/volume/attachdetach`. What differs: there is no second picture of the world beside the
//!   caches that had to be compared with it ten times a second (`--attach-detach-reconcile-sync-period` has nothing to
//!   set); what drivers say is seen when they say it. A disk for one node goes to another only when nothing is left of the
//!   request for the first, also when a driver has failed at that or is slow; upstream lets both be tried then, and
//!   trusts the driver to refuse one. FlexVolume drivers, which are programs on the control plane's own
//!   disk, are not run.

pub mod invariants;
mod ledger;
mod memory;
mod metrics;
pub mod plan;
pub mod report;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod wants;
mod wording;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{CSIDriver, Key, Node, PersistentVolume, PersistentVolumeClaim, VolumeAttachment};
use flyball_common::index::by_node;
use flyball_queue::Queue;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::sync::Shared;
use self::wants::{BY_DISK, BY_INLINE_DISK, BY_REPORTED, BY_SOURCE, BY_TARGET, Caches};
use crate::disk::{Disk, Lookup};
use crate::usage::{BY_CLAIM, pods_of};

/// Where its events come from.
const EVENT_SOURCE: &str = "attachdetach-controller";
/// Each waits for a request now and then; upstream starts a goroutine for every disk.
const WORKERS: usize = 10;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let disks = tasks.queue::<Key>("pvcs");
    let nodes = tasks.queue::<Key>("attachdetach_nodes");
    let caches = Caches {
        pods: cx.informer::<Pod>(),
        nodes: cx.informer::<Node>(),
        lookup: Lookup {
            claims: cx.informer::<PersistentVolumeClaim>(),
            volumes: cx.informer::<PersistentVolume>(),
            drivers: cx.informer::<CSIDriver>(),
        },
        attachments: cx.informer::<VolumeAttachment>(),
        memory: Default::default(),
        gone: Default::default(),
    };
    caches.pods.index(&by_node());
    caches.pods.index(&BY_CLAIM);
    caches.pods.index(&BY_INLINE_DISK);
    caches.nodes.index(&BY_REPORTED);
    caches.lookup.volumes.index(&BY_DISK);
    caches.attachments.index(&BY_SOURCE);
    caches.attachments.index(&BY_TARGET);
    let shared = Arc::new(Shared {
        events: cx.events.with_source(EVENT_SOURCE),
        numbers: metrics::Numbers::new(cx.metrics.clone()),
        cx,
        caches,
        ledger: Default::default(),
        disks: disks.clone(),
        nodes: nodes.clone(),
    });
    listen(&shared, tasks, &disks, &nodes);
    shared.cx.metrics.on_scrape({
        let shared = Arc::downgrade(&shared);
        move |_| {
            if let Some(shared) = shared.upgrade() {
                shared.numbers.count(shared.caches.count());
            }
        }
    });
    tasks.workers(&disks, WORKERS, Arc::new(sync::Disks(shared.clone())));
    tasks.workers(&nodes, WORKERS, Arc::new(sync::Nodes(shared)));
    Ok(())
}

/// Lets every change that matters bring up the disks and nodes that it concerns.
fn listen(shared: &Arc<Shared>, tasks: &mut Tasks, disks: &Queue<Key>, nodes: &Queue<Key>) {
    let Caches { pods, attachments, lookup, .. } = &shared.caches;
    let Lookup { claims, volumes, drivers } = lookup;
    tasks.on(pods, {
        let (shared, disks, nodes) = (shared.clone(), disks.clone(), nodes.clone());
        move |change| {
            if !triggers::pod_changed(change) {
                return;
            }
            let urgency = priority(change.origin);
            for pod in change.old.into_iter().chain(change.new) {
                let node = Key::cluster(pod.spec.node_name.as_str());
                // What a pod leaves behind may not be traceable through its claims any more; its node names it.
                let found = shared.caches.nodes.store().get(&node);
                let left = found.iter().flat_map(|node| &node.status.volumes_attached);
                for disk in left.map(|volume| volume.name.clone()).chain(shared.caches.names_for(pod)) {
                    disks.add(Key::cluster(disk), urgency);
                }
                nodes.add(node, urgency);
            }
        }
    });
    tasks.on(&shared.caches.nodes, {
        let (shared, disks, nodes) = (shared.clone(), disks.clone(), nodes.clone());
        move |change| {
            let Some(concerned) = triggers::node_changed(change) else { return };
            let (key, urgency) = (change.key(), priority(change.origin));
            shared.node_changed(&key.name, change.new.is_none().then_some(change.old).flatten());
            for disk in concerned.into_iter().chain(shared.disks_at(&key.name)) {
                disks.add(Key::cluster(disk), urgency);
            }
            nodes.add(key, urgency);
        }
    });
    tasks.on(claims, {
        let (shared, disks, nodes) = (shared.clone(), disks.clone(), nodes.clone());
        move |change| {
            let Some(claim) = change.new else { return };
            let Some(volume) = shared.caches.lookup.bound_volume(claim) else { return };
            let Some(disk) = Disk::of_volume(&volume) else { return };
            let urgency = priority(change.origin);
            for pod in pods_of(shared.caches.pods.store(), &change.key()) {
                nodes.add(Key::cluster(pod.spec.node_name.as_str()), urgency);
            }
            disks.add(Key::cluster(disk.name), urgency);
        }
    });
    tasks.on(volumes, {
        let (shared, disks) = (shared.clone(), disks.clone());
        move |change| {
            if let (Some(last), None) = (change.old, change.new) {
                shared.caches.volume_went(last);
            }
            let both = [change.old, change.new].into_iter().flatten();
            for disk in both.filter_map(|volume| Disk::of_volume(volume)) {
                disks.add(Key::cluster(disk.name), priority(change.origin));
            }
        }
    });
    tasks.on(attachments, {
        let (shared, disks, nodes) = (shared.clone(), disks.clone(), nodes.clone());
        move |change| {
            let Some(attachment) = change.new.or(change.old) else { return };
            if !triggers::attachment_changed(change) {
                return;
            }
            let urgency = priority(change.origin);
            if let Some(disk) = shared.caches.disk_name_of(attachment) {
                disks.add(Key::cluster(disk), urgency);
            }
            nodes.add(Key::cluster(attachment.spec.node_name.as_str()), urgency);
        }
    });
    tasks.on(drivers, {
        let (shared, disks) = (shared.clone(), disks.clone());
        move |change| {
            if triggers::driver_changed(change) {
                // This happens when a driver is installed, so that looking at all volumes does no harm.
                for disk in shared.caches.disks_of_driver(&change.key().name) {
                    disks.add(Key::cluster(disk), priority(change.origin));
                }
            }
        }
    });
}
