//! Looks up in the caches which disks pods need, on which nodes, and which VolumeAttachments there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::pod::{Pod, Volume, VolumeSource};
use flyball_api::{Key, Node, Object, PersistentVolume, Uid, VolumeAttachment};
use flyball_cache::{Index, Informer};
use flyball_common::index::by_node;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};

use super::disk_on_node::Observed;
use super::flex::Drivers;
use super::metrics::{Counts, plugin};
use super::pod_disks::PodDisks;
use crate::disk::{Attacher, Disk, DriverVolume, Lookup, flex_name, is_attachment_name};
use crate::usage::pods_of;

/// The annotation of nodes whose disks this controller attaches and detaches.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Pods by the disks of their inline volumes.
pub(super) const BY_INLINE_DISK: Index<Pod> = Index::new("inline-disk", |pod, emit| {
    for volume in &pod.spec.volumes {
        if let Some(disk) = Disk::of_inline(&pod.metadata.namespace, volume) {
            emit(&disk.name);
        }
    }
});
pub(super) const BY_DISK: Index<PersistentVolume> = Index::new("disk", |volume, emit| {
    if let Some(disk) = Disk::of_volume(volume) {
        emit(&disk.name);
    }
});
/// Nodes by the disks in `status.volumesAttached`.
pub(super) const BY_REPORTED: Index<Node> = Index::new("reported-disk", |node, emit| {
    for volume in &node.status.volumes_attached {
        emit(&volume.name);
    }
});
/// VolumeAttachments by `spec.source`: the name of the PersistentVolume, or of the disk of the inline volume. Only names of disks
/// have slashes.
pub(super) const BY_SOURCE: Index<VolumeAttachment> = Index::new("source", |attachment, emit| {
    if let Some(volume) = &attachment.spec.source.persistent_volume_name {
        emit(volume);
    } else if let Some(volume) = inline_volume(attachment) {
        emit(&volume.name());
    }
});

pub(super) const BY_TARGET: Index<VolumeAttachment> =
    Index::new("target-node", |attachment, emit| emit(&attachment.spec.node_name));

/// One disk should be attached to one node, because these pods need it.
#[derive(Debug, Clone)]
pub struct DesiredAttachment {
    pub disk: Disk,
    /// Sorted by name.
    pub pods: Vec<Arc<Pod>>,
}

/// The caches, and what they showed before.
pub(super) struct Caches {
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) lookup: Lookup,
    pub(super) attachments: Arc<Informer<VolumeAttachment>>,
    pub(super) flex_drivers: Arc<Drivers>,
    pub(super) pod_disks: Mutex<PodDisks>,
    /// The disks of volumes that were deleted while they had VolumeAttachments, by the volume's name.
    pub(super) deleted_volumes: Mutex<FxHashMap<SmolStr, SmolStr>>,
}

impl Caches {
    pub(super) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.store().get(&Key::cluster(name))
    }

    /// The disks that pods on a managed node need, by name.
    pub(super) fn desired_on(&self, node: &str) -> BTreeMap<SmolStr, DesiredAttachment> {
        let mut desired = BTreeMap::new();
        if !self.node(node).is_some_and(|node| is_managed(&node)) {
            return desired;
        }
        for pod in sorted(self.pods.store().by(&by_node(), node)) {
            for disk in self.disks_of(&pod) {
                add(&mut desired, disk.name.clone(), disk, &pod);
            }
        }
        desired
    }

    /// The pods on managed nodes that need a disk, sorted by name, each with the disk as its volume refers to it. `was_managed` says
    /// whether a deleted node was managed: its disks, too, are not detached before its pods are gone.
    pub(super) fn users(&self, disk: &str, was_managed: impl Fn(&str) -> bool) -> Vec<(Arc<Pod>, Disk)> {
        let mut candidates = self.pods.store().by(&BY_INLINE_DISK, disk);
        candidates.extend(
            self.pod_disks.lock().pods(disk).into_iter().filter_map(|(key, uid)| self.pod(&key, &uid)),
        );
        for volume in self.lookup.volumes.store().by(&BY_DISK, disk) {
            if let Some(claim) = &volume.spec.claim_ref {
                let claim = Key::new(claim.namespace.as_str(), claim.name.as_str());
                candidates.extend(pods_of(self.pods.store(), &claim));
            }
        }
        let is_managed = |pod: &Pod| match self.node(&pod.spec.node_name) {
            Some(node) => is_managed(&node),
            None => was_managed(&pod.spec.node_name),
        };
        let user = |pod: Arc<Pod>| {
            let disk = self.disks_of(&pod).find(|found| found.name == disk)?;
            is_managed(&pod).then_some((pod, disk))
        };
        sorted(candidates).into_iter().filter_map(user).collect()
    }

    /// Adds the pods that need a disk to `pod_disks`, and removes those that do not need it any more.
    pub(super) fn update_pod_disks(&self, disk: &str, users: &[(Arc<Pod>, Disk)]) {
        let mut pod_disks = self.pod_disks.lock();
        for (key, uid) in pod_disks.pods(disk) {
            if self.pod(&key, &uid).is_none() {
                pod_disks.remove(disk, &key, &uid);
            }
        }
        users.iter().for_each(|(pod, disk)| pod_disks.insert(pod, disk));
    }

    /// The pod of this key and uid, if it needs its disks.
    fn pod(&self, key: &Key, uid: &Uid) -> Option<Arc<Pod>> {
        self.pods.store().get(key).filter(|pod| pod.uid() == uid && needs_disks(pod))
    }

    /// The disks that pods need on a node, and those that have VolumeAttachments for it.
    pub(super) fn disks_at(&self, node: &str) -> BTreeSet<SmolStr> {
        let attachments = self.attachments.store().by(&BY_TARGET, node);
        let attached = attachments.iter().filter_map(|attachment| self.disk_name_of(attachment));
        self.desired_on(node).into_keys().chain(attached).collect()
    }

    /// If a disk is a FlexVolume: whether its driver is installed and attaches volumes.
    pub(super) fn is_flex_driver_installed(&self, disk: &str) -> Option<bool> {
        flex_name(disk).map(|(driver, _)| self.flex_drivers.can_attach(driver))
    }

    /// Everything that the caches show about a disk, by node. `further` are nodes that may have it, though the caches do not show it.
    pub(super) fn observe<'a>(
        &self,
        disk: &str,
        users: &[(Arc<Pod>, Disk)],
        further: impl Iterator<Item = &'a SmolStr>,
    ) -> Observed {
        let attachments = match DriverVolume::named(disk) {
            Some(volume) => self.attachments_of(&volume),
            None => {
                self.orphan(disk).map(|found| (found.spec.node_name.clone(), found)).into_iter().collect()
            }
        };
        let mut desired = BTreeMap::new();
        for (pod, disk) in users {
            add(&mut desired, pod.spec.node_name.clone(), disk.clone(), pod);
        }
        let reporting = self.nodes.store().by(&BY_REPORTED, disk);
        let reporting = reporting.iter().map(|node| node.metadata.name.clone());
        let names: BTreeSet<SmolStr> = desired
            .keys()
            .chain(attachments.keys())
            .cloned()
            .chain(reporting)
            .chain(further.cloned())
            .collect();
        let nodes = names.into_iter().map(|name| {
            let node = self.node(&name);
            (name, node)
        });
        let is_driver_installed = self.is_flex_driver_installed(disk);
        Observed { nodes: nodes.collect(), desired, attachments, is_driver_installed }
    }

    /// The disks that a pod needs: those of its volumes now, and those of its volumes before, whose claims were deleted.
    fn disks_of(&self, pod: &Pod) -> impl Iterator<Item = Disk> {
        let mut disks = vec![];
        if needs_disks(pod) {
            disks.extend(pod.spec.volumes.iter().filter_map(|volume| self.disk_of(pod, volume)));
            for before in self.pod_disks.lock().disks(pod.uid()) {
                if self.needs_attaching(&before) && disks.iter().all(|disk| disk.name != before.name) {
                    disks.push(before);
                }
            }
        }
        disks.into_iter()
    }

    /// The names of the disks of a pod's volumes, now and before, whether it still needs them or not.
    pub(super) fn names_for(&self, pod: &Pod) -> Vec<SmolStr> {
        let disks = pod.spec.volumes.iter().filter_map(|volume| self.disk_of(pod, volume));
        disks.chain(self.pod_disks.lock().disks(pod.uid())).map(|disk| disk.name).collect()
    }

    /// The disk behind a volume of a pod, if it needs to be attached.
    fn disk_of(&self, pod: &Pod, volume: &Volume) -> Option<Disk> {
        self.lookup.disk_of(&pod.metadata, volume).filter(|disk| self.needs_attaching(disk))
    }

    /// False for a disk of a driver with `attachRequired: false`, and for a FlexVolume without a driver that attaches it.
    fn needs_attaching(&self, disk: &Disk) -> bool {
        if let Some(volume) = disk.flex() {
            return self.flex_drivers.can_attach(&volume.driver);
        }
        self.lookup.driver_of(disk).is_none_or(|driver| driver.spec.attach_required != Some(false))
    }

    /// The VolumeAttachments of a driver's volume, by node. Those whose names are not as this controller forms them belong to other
    /// components and are left out.
    pub(super) fn attachments_of(&self, volume: &DriverVolume) -> BTreeMap<SmolStr, Arc<VolumeAttachment>> {
        let (disk, store) = (volume.name(), self.attachments.store());
        let mut found = store.by(&BY_SOURCE, &disk);
        for known in self.lookup.volumes.store().by(&BY_DISK, &disk) {
            found.extend(store.by(&BY_SOURCE, &known.metadata.name));
        }
        for (volume, _) in self.deleted_volumes.lock().iter().filter(|(_, known)| **known == disk) {
            found.extend(store.by(&BY_SOURCE, volume));
        }
        for node in self.nodes.store().by(&BY_REPORTED, &disk) {
            found.extend(store.get(&Key::cluster(volume.attachment(&node.metadata.name))));
        }
        let is_ours = |attachment: &Arc<VolumeAttachment>| {
            attachment.metadata.name == volume.attachment(&attachment.spec.node_name)
        };
        let by_node = |attachment: Arc<VolumeAttachment>| (attachment.spec.node_name.clone(), attachment);
        found.into_iter().filter(is_ours).map(by_node).collect()
    }

    /// Records the disk of a deleted volume while there are VolumeAttachments for it, which name the volume and not the disk.
    pub(super) fn volume_deleted(&self, volume: &PersistentVolume) {
        let mut deleted = self.deleted_volumes.lock();
        deleted.retain(|volume, _| !self.attachments.store().by(&BY_SOURCE, volume).is_empty());
        let name = &volume.metadata.name;
        if let Some(disk) = Disk::of_volume(volume)
            && !self.attachments.store().by(&BY_SOURCE, name).is_empty()
        {
            deleted.insert(name.clone(), disk.name);
        }
    }

    /// The VolumeAttachment of this name, if its volume was deleted before this process started, and no pod on its node needs the
    /// disk through another volume. Which disk it is cannot be known, so the name of the VolumeAttachment is used for the disk.
    pub(super) fn orphan(&self, name: &str) -> Option<Arc<VolumeAttachment>> {
        let attachment = self.attachments.store().get(&Key::cluster(name))?;
        let is_it = |disk: &Disk| {
            disk.driver().is_some_and(|volume| volume.attachment(&attachment.spec.node_name) == name)
        };
        let is_unknown = self.disk_name_of(&attachment).is_some_and(|disk| disk == name);
        let is_desired =
            || self.desired_on(&attachment.spec.node_name).values().any(|desired| is_it(&desired.disk));
        (is_unknown && !is_desired()).then_some(attachment)
    }

    /// The disks on a node that are known only by the names of their VolumeAttachments.
    pub(super) fn orphans_at(&self, node: &str) -> impl Iterator<Item = SmolStr> {
        let attachments = self.attachments.store().by(&BY_TARGET, node).into_iter();
        let disks = attachments.filter_map(|attachment| self.disk_name_of(&attachment));
        disks.filter(|disk| is_attachment_name(disk))
    }

    /// The disks of all volumes of a driver.
    pub(super) fn disks_of_driver(&self, driver: &str) -> Vec<SmolStr> {
        let disks =
            self.lookup.volumes.store().list().into_iter().filter_map(|volume| Disk::of_volume(&volume));
        let is_its = |disk: &Disk| disk.driver().is_some_and(|volume| volume.driver == driver);
        disks.filter(is_its).map(|disk| disk.name).collect()
    }

    /// The disks of these FlexVolume drivers. This walks over all volumes and pods; it happens only when a driver is installed.
    pub(super) fn disks_of_flex_drivers(&self, drivers: &[SmolStr]) -> BTreeSet<SmolStr> {
        let mut disks = BTreeSet::new();
        let is_theirs = |disk: &str| {
            flex_name(disk).is_some_and(|(driver, _)| drivers.iter().any(|changed| changed == driver))
        };
        let volumes = self.lookup.volumes.store().list();
        disks.extend(volumes.iter().filter_map(|volume| Disk::of_volume(volume)).map(|disk| disk.name));
        for pod in self.pods.store().list() {
            let inline = pod.spec.volumes.iter();
            let inline = inline.filter_map(|volume| Disk::of_inline(&pod.metadata.namespace, volume));
            disks.extend(inline.map(|disk| disk.name));
        }
        for node in self.nodes.store().list() {
            disks.extend(node.status.volumes_attached.iter().map(|volume| volume.name.clone()));
        }
        disks.retain(|disk| is_theirs(disk));
        disks
    }

    /// Whether a disk is that of a volume of an in-tree plugin that a CSI driver has replaced.
    pub(super) fn is_migrated(&self, disk: &str) -> bool {
        let volumes = self.lookup.volumes.store().by(&BY_DISK, disk);
        let mut disks = volumes.iter().filter_map(|volume| Disk::of_volume(volume));
        disks.any(|disk| matches!(disk.attacher, Attacher::Driver { is_migrated: true, .. }))
    }

    /// The numbers of disks by plugin and state (desired or actual), and by node and plugin.
    pub(super) fn count(&self) -> [Counts; 2] {
        let (mut total, mut used) = (Counts::new(), Counts::new());
        let mut desired = BTreeSet::new();
        for pod in self.pods.store().list().iter().filter(|pod| !pod.spec.node_name.is_empty()) {
            let node = &pod.spec.node_name;
            for volume in &pod.spec.volumes {
                // Volumes that need not be attached count as in use, too.
                let plugin = match (&volume.source, self.lookup.disk_of(&pod.metadata, volume)) {
                    (VolumeSource::Csi { driver }, _) => format_smolstr!("kubernetes.io/csi:{driver}"),
                    (_, Some(disk)) if disk.flex().is_some() && !self.needs_attaching(&disk) => continue,
                    (_, Some(disk)) => {
                        let plugin = plugin(&disk.name);
                        let is_desired = needs_disks(pod) && self.needs_attaching(&disk);
                        if is_desired && self.node(node).is_some_and(|node| is_managed(&node)) {
                            desired.insert((disk.name, node.clone()));
                        }
                        plugin
                    }
                    (_, None) => continue,
                };
                *used.entry([node.clone(), plugin]).or_default() += 1;
            }
        }
        for (disk, _) in &desired {
            *total.entry([plugin(disk), "desired_state_of_world".into()]).or_default() += 1;
        }
        for (disk, _) in self.attached() {
            *total.entry([plugin(&disk), "actual_state_of_world".into()]).or_default() += 1;
        }
        [total, used]
    }

    /// The disks that are attached, each with its node. One that is being detached is no longer in the status of the node, and
    /// still counts.
    fn attached(&self) -> BTreeSet<(SmolStr, SmolStr)> {
        let nodes = self.nodes.store().list();
        let reported = nodes.iter().flat_map(|node| {
            let disks = node.status.volumes_attached.iter();
            disks.map(|disk| (disk.name.clone(), node.metadata.name.clone()))
        });
        let attachments = self.attachments.store().list();
        let attached = attachments.iter().filter(|attachment| attachment.status.attached);
        let attached = attached.filter_map(|attachment| {
            let disk = self.disk_name_of(attachment)?;
            Some((disk, attachment.spec.node_name.clone()))
        });
        reported.chain(attached).collect()
    }

    /// The name of the disk of a VolumeAttachment. If its volume was deleted before this process started, it is the name of the
    /// VolumeAttachment itself.
    pub(super) fn disk_name_of(&self, attachment: &VolumeAttachment) -> Option<SmolStr> {
        let own = &attachment.metadata.name;
        match &attachment.spec.source.persistent_volume_name {
            Some(name) => match self.lookup.volumes.store().get(&Key::cluster(name.as_str())) {
                Some(volume) => Disk::of_volume(&volume).map(|disk| disk.name),
                None => {
                    let known = self.deleted_volumes.lock().get(name).cloned();
                    known.or_else(|| is_attachment_name(own).then(|| own.clone()))
                }
            },
            None => inline_volume(attachment).map(|volume| volume.name()),
        }
    }
}

pub(super) fn is_managed(node: &Node) -> bool {
    node.metadata.annotations.contains_key(MANAGED)
}

/// Whether a pod is on a node and needs its disks: until it is finished, or deleted and its containers have terminated.
pub(super) fn needs_disks(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty() && !pod.has_stopped()
}

/// The volume in `spec.source.inlineVolumeSpec` of a VolumeAttachment.
pub(super) fn inline_volume(attachment: &VolumeAttachment) -> Option<DriverVolume> {
    #[derive(Deserialize)]
    struct Spec {
        csi: Csi,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Csi {
        driver: SmolStr,
        volume_handle: SmolStr,
    }
    let spec = attachment.spec.source.inline_volume_spec.as_ref()?;
    let Spec { csi } = serde_json::from_str(spec.as_str()).ok()?;
    Some(DriverVolume { driver: csi.driver, handle: csi.volume_handle })
}

fn sorted(mut pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    pods.sort_by_cached_key(|pod| pod.key());
    pods.dedup_by(|a, b| Arc::ptr_eq(a, b));
    pods
}

fn add(all: &mut BTreeMap<SmolStr, DesiredAttachment>, key: SmolStr, disk: Disk, pod: &Arc<Pod>) {
    let desired = all.entry(key).or_insert_with(|| DesiredAttachment { disk, pods: vec![] });
    // Two volumes of a pod may be the same disk.
    if desired.pods.last().is_none_or(|last| !Arc::ptr_eq(last, pod)) {
        desired.pods.push(pod.clone());
    }
}
