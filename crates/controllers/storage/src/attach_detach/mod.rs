//! Attaches volumes to the nodes whose pods need them, and detaches them when no pod on the node needs them any more.
//!
//! A *disk* is what is attached: the storage behind a PersistentVolume or an inline volume, with upstream's unique volume name.
//!
//! - **Promise**: a disk is attached to every node with a pod that needs it, and to no other node. An exclusive disk never has
//!   VolumeAttachments for two nodes at once, and no FlexVolume driver attaches it to a second node before it has detached it from
//!   the first. No disk is detached from a node that has it mounted, unless the node is out of service, or is unhealthy and did not
//!   unmount the disk within six minutes. `status.volumesAttached` of a node has a disk only while it is attached and not about to
//!   be detached.
//! - **Watches** Pods, Nodes, claims, volumes, CSIDrivers and VolumeAttachments. **Writes** VolumeAttachments and
//!   `status.volumesAttached` of nodes. Nodes without the annotation `controller-managed-attach-detach` are ignored, also
//!   those that had it before (docs/operations.md says why).
//! - **Files**: there are two queues for disks (FlexVolumes have their own, since their drivers may be slow) and one for nodes. For
//!   a disk, [`steps`] decides, [`plan`] turns the steps into writes and calls of drivers, and [`attempts`] evaluates what came of
//!   them; for the status of a node, [`report`] does both. All look at [`disk_on_node`], which is collected from the `caches`, and
//!   from the `ledger` and `pod_disks`, which hold what the caches do not show. [`flex`] finds and runs FlexVolume drivers.
//! - **A live read decides**: before a disk is detached, its node is read from the server. To detach a disk that is mounted,
//!   because a stale cache does not show it, could corrupt data.
//! - CSI drivers attach disks when a VolumeAttachment is created, and detach them when it is deleted. Volumes of in-tree plugins
//!   are treated as volumes of the CSI drivers that replaced the plugins. Nodes attach iSCSI and Fibre Channel disks themselves.
//!   FlexVolume drivers are programs in `--flex-volume-plugin-dir`; that a disk is attached by one is shown only by
//!   `status.volumesAttached`, and by the ledger before and after that.
//! - Upstream: `pkg/controller/volume/attachdetach`. What differs: there is no desired and actual state of the world beside the
//!   caches, and no loop that compares the two. For an exclusive disk, a VolumeAttachment for another node is created (or a
//!   FlexVolume driver called) only when the disk is detached from the first node, also when the driver has failed or is slow;
//!   upstream then attaches it to both and relies on the driver to refuse one. So when a driver exceeds its two minutes, the pods
//!   that wait for the disk on other nodes get the event that it is attached elsewhere, not that attaching it has timed out.
//!   Attaching a disk that is no longer needed before its driver has attached it is taken back at once; upstream waits for the end of
//!   the attempt and for the next update of the node.
//!   Nothing is attached to a node that was deleted. Volumes whose handle contains `^` can be detached. A VolumeAttachment whose
//!   volume was deleted before this process started is deleted (`Caches::orphan`), and so is one for an inline volume of a pod that
//!   was deleted by then; upstream leaves both. `--attach-detach-reconcile-sync-period` is how often FlexVolume drivers are asked whether volumes are attached;
//!   VolumeAttachments are watched. A node that gets the annotation gets its disks at once; upstream's next look at all pods is up
//!   to three minutes later. There is no operation `verify_volumes_are_attached_per_node` in metrics. What differs for FlexVolumes
//!   is said in [`flex`].

pub mod attempts;
pub mod caches;
pub mod disk_on_node;
pub mod flex;
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
use flyball_common::informer_lag::Misses;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::caches::{BY_DISK, BY_INLINE_DISK, BY_REPORTED, BY_SOURCE, BY_TARGET, Caches};
use self::flex::{Drivers, Limits};
use self::sync::Shared;
use self::triggers::Affected;
use crate::disk::Lookup;
use crate::usage::BY_CLAIM;

const EVENT_SOURCE: &str = "attachdetach-controller";
/// Upstream starts a goroutine for every disk.
const WORKERS: usize = 10;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let disks = tasks.queue::<Key>("pvcs");
    let flex_disks = tasks.queue::<Key>("attachdetach_flex_volumes");
    let nodes = tasks.queue::<Key>("attachdetach_nodes");
    let volumes = &cx.config.persistent_volume_binder_controller.volume_configuration;
    let flex_folder = volumes.flex_volume_plugin_dir.clone();
    let has_flex_folder = !flex_folder.is_empty();
    let caches = Caches {
        pods: cx.informer::<Pod>(),
        nodes: cx.informer::<Node>(),
        lookup: Lookup {
            claims: cx.informer::<PersistentVolumeClaim>(),
            volumes: cx.informer::<PersistentVolume>(),
            drivers: cx.informer::<CSIDriver>(),
        },
        attachments: cx.informer::<VolumeAttachment>(),
        flex_drivers: Arc::new(Drivers::new(flex_folder, Limits::default())),
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
        orphans: Misses::default(),
        disks: disks.clone(),
        flex_disks: flex_disks.clone(),
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
    tasks.workers(&flex_disks, WORKERS, Arc::new(sync::DiskSync(shared.clone())));
    if has_flex_folder {
        tasks.spawn("FlexVolume drivers", shared.clone().follow_flex_drivers());
    }
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
        disks.into_iter().for_each(|disk| shared.add_disk(disk, urgency));
        nodes.into_iter().for_each(|node| shared.nodes.add(Key::cluster(node), urgency));
    });
}
