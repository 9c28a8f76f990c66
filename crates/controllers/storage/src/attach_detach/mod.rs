//! Attaches disks to the nodes whose pods want them, and detaches them again.
//!
//! - **Promise**: a disk is attached to every node that has a pod which wants it, and to no other. An exclusive disk is
//!   never requested for two nodes at once, also while its driver is still working on the first. No disk is detached from
//!   a node that has it mounted, unless the node is out of service, or is unhealthy and did not unmount the disk within six
//!   minutes. The status of a node names a disk only while it is attached and not about to be detached.
//! - **Watches** Pods, Nodes, claims, volumes, CSIDrivers and VolumeAttachments. **Writes** VolumeAttachments and
//!   `status.volumesAttached` of nodes. Nodes without the annotation `controller-managed-attach-detach` are left alone.
//! - **Files**: there are two queues. [`steps`] and [`plan`] decide for a disk, [`report`] (which is the status as well)
//!   for the status of a node; [`place`] is what both look at. `ledger` and `memory` hold what the caches do not show.
//! - **A live read decides**: before a disk is detached, its node is read from the server, because a stale cache would
//!   cost data.
//! - Drivers attach disks on behalf of VolumeAttachments. Volumes of in-tree plugins are read as those of the CSI drivers
//!   that replaced them. Nodes attach iSCSI and Fibre Channel disks by themselves.
//! - Upstream: `pkg/controller/volume/attachdetach`. What differs: there is no second model of the cluster beside the
//!   caches, and no loop that compares the two (`--attach-detach-reconcile-sync-period` has no effect). An exclusive disk
//!   is requested for another node only when the VolumeAttachment for the first is gone, also when its driver has failed or
//!   is slow; upstream then requests both and relies on the driver to refuse one. Nothing is attached to a node that was
//!   deleted. Volumes whose handle contains `^` can be detached. A VolumeAttachment whose volume was deleted before this
//!   process started is deleted although neither it nor the node names the disk (`Caches::orphan`); upstream leaves it.
//!   Volumes are not compared with their drivers now and then, so there is no operation
//!   `verify_volumes_are_attached_per_node` in metrics. FlexVolume drivers, which are programs on the disk of the control
//!   plane, are not run.

pub mod invariants;
mod ledger;
mod memory;
mod messages;
mod metrics;
pub mod place;
pub mod plan;
pub mod report;
pub mod steps;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod wants;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{CSIDriver, Key, Node, Object, PersistentVolume, PersistentVolumeClaim, VolumeAttachment};
use flyball_cache::{Change, Informer};
use flyball_common::index::by_node;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::sync::Shared;
use self::triggers::Concerned;
use self::wants::{BY_DISK, BY_INLINE_DISK, BY_REPORTED, BY_SOURCE, BY_TARGET, Caches};
use crate::disk::Lookup;
use crate::usage::BY_CLAIM;

const EVENT_SOURCE: &str = "attachdetach-controller";
/// Upstream starts a goroutine for every disk.
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
        deleted_volumes: Default::default(),
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
        metrics: metrics::DiskMetrics::new(cx.metrics.clone()),
        cx,
        caches,
        ledger: Default::default(),
        disks: disks.clone(),
        nodes: nodes.clone(),
    });
    subscribe(&shared, tasks);
    shared.cx.metrics.on_scrape({
        let shared = Arc::downgrade(&shared);
        move |_| {
            if let Some(shared) = shared.upgrade() {
                shared.metrics.count(shared.caches.count());
            }
        }
    });
    tasks.workers(&disks, WORKERS, Arc::new(sync::Disks(shared.clone())));
    tasks.workers(&nodes, WORKERS, Arc::new(sync::Nodes(shared)));
    Ok(())
}

fn subscribe(shared: &Arc<Shared>, tasks: &mut Tasks) {
    let Caches { pods, nodes, attachments, lookup, .. } = &shared.caches;
    let Lookup { claims, volumes, drivers } = lookup;
    feed(shared, tasks, pods, |shared, change| triggers::pod_changed(change, &shared.caches));
    feed(shared, tasks, nodes, |shared, change| {
        shared.record_node(change);
        triggers::node_changed(change, &shared.caches)
    });
    feed(shared, tasks, claims, |shared, change| triggers::claim_changed(change, &shared.caches));
    feed(shared, tasks, volumes, |shared, change| {
        if let (Some(last), None) = (change.old, change.new) {
            shared.caches.volume_deleted(last);
        }
        triggers::volume_changed(change)
    });
    feed(shared, tasks, attachments, |shared, change| triggers::attachment_changed(change, &shared.caches));
    feed(shared, tasks, drivers, |shared, change| triggers::driver_changed(change, &shared.caches));
}

/// Puts the disks and nodes that each change concerns into their queues.
fn feed<T: Object>(
    shared: &Arc<Shared>,
    tasks: &mut Tasks,
    informer: &Arc<Informer<T>>,
    concerned: impl Fn(&Shared, &Change<'_, T>) -> Concerned + Send + Sync + 'static,
) {
    let shared = shared.clone();
    tasks.on(informer, move |change| {
        let urgency = priority(change.origin);
        let Concerned { disks, nodes } = concerned(&shared, change);
        disks.into_iter().for_each(|disk| shared.disks.add(Key::cluster(disk), urgency));
        nodes.into_iter().for_each(|node| shared.nodes.add(Key::cluster(node), urgency));
    });
}
