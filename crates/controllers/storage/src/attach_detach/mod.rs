//! Attaches volumes to the nodes whose pods need them, and detaches them when no pod on the node needs them any more.
//!
//! A *disk* is what is attached: the storage behind a PersistentVolume or an inline volume, with upstream's unique volume name.
//!
//! - **Promise**: a disk is attached to every node with a pod that needs it, and to no other node. An exclusive disk never has
//!   VolumeAttachments for two nodes at once. No disk is detached from a node that has it mounted, unless the node is out of
//!   service, or is unhealthy and did not unmount the disk within six minutes. `status.volumesAttached` of a node has a disk
//!   only while it is attached and not about to be detached.
//! - **Watches** Pods, Nodes, claims, volumes, CSIDrivers and VolumeAttachments. **Writes** VolumeAttachments and
//!   `status.volumesAttached` of nodes. Nodes without the annotation `controller-managed-attach-detach` are ignored.
//! - **Files**: there are two queues. For a disk, [`steps`] decides and [`plan`] turns the steps into writes; for the status of
//!   a node, [`report`] does both. Both look at [`disk_on_node`], which is collected from the `caches`, and from the `ledger`
//!   and `pod_disks`, which hold what the caches do not show.
//! - **A live read decides**: before a disk is detached, its node is read from the server. To detach a disk that is mounted,
//!   because a stale cache does not show it, could corrupt data.
//! - CSI drivers attach disks when a VolumeAttachment is created, and detach them when it is deleted. Volumes of in-tree plugins
//!   are treated as volumes of the CSI drivers that replaced the plugins. Nodes attach iSCSI and Fibre Channel disks themselves.
//! - Upstream: `pkg/controller/volume/attachdetach`. What differs: there is no desired and actual state of the world
//!   beside the caches, and no loop that compares the two (`--attach-detach-reconcile-sync-period` has no effect). For an
//!   exclusive disk, a VolumeAttachment for another node is created only when that for the first node is gone, also when the
//!   driver has failed or is slow; upstream then creates both and relies on the driver to refuse one. Nothing is attached to a
//!   node that was deleted. Volumes whose handle contains `^` can be detached. A VolumeAttachment whose volume was deleted before this
//!   process started is deleted (`Caches::orphan`); upstream leaves it. There is no periodic check with the drivers whether
//!   volumes are attached, and so no operation `verify_volumes_are_attached_per_node` in metrics. FlexVolume drivers, which are programs on the disk of the control
//!   plane, are not run.

pub mod caches;
pub mod disk_on_node;
pub mod invariants;
mod ledger;
mod messages;
mod metrics;
pub mod plan;
mod pod_disks;
pub mod report;
pub mod steps;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{CSIDriver, Key, Node, Object, PersistentVolume, PersistentVolumeClaim, VolumeAttachment};
use flyball_cache::{Change, Informer};
use flyball_common::index::by_node;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::caches::{BY_DISK, BY_INLINE_DISK, BY_REPORTED, BY_SOURCE, BY_TARGET, Caches};
use self::sync::Shared;
use self::triggers::Affected;
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
        pod_disks: Default::default(),
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
    tasks.workers(&disks, WORKERS, Arc::new(sync::DiskSync(shared.clone())));
    tasks.workers(&nodes, WORKERS, Arc::new(sync::NodeSync(shared)));
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

/// Adds the disks and nodes that each change affects to their queues.
fn feed<T: Object>(
    shared: &Arc<Shared>,
    tasks: &mut Tasks,
    informer: &Arc<Informer<T>>,
    affected: impl Fn(&Shared, &Change<'_, T>) -> Affected + Send + Sync + 'static,
) {
    let shared = shared.clone();
    tasks.on(informer, move |change| {
        let urgency = priority(change.origin);
        let Affected { disks, nodes } = affected(&shared, change);
        disks.into_iter().for_each(|disk| shared.disks.add(Key::cluster(disk), urgency));
        nodes.into_iter().for_each(|node| shared.nodes.add(Key::cluster(node), urgency));
    });
}
