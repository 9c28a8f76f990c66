//! The disks behind volumes, and their names in the status of nodes and in VolumeAttachments. Pure, except for the cache lookups.
//!
//! A *disk* is what can be attached to a node: the storage that a PersistentVolume, or an inline volume of a pod, refers to. Two
//! volumes may refer to the same disk. Upstream calls it a volume, too, and its name the unique volume name.
//!
//! Not a controller: attach-detach and the SELinux warnings share this.

mod flex;
mod in_tree;
mod lookup;
#[cfg(test)]
mod tests;

use flyball_api::PersistentVolume;
use flyball_api::pod::{Volume, VolumeSource};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};

pub use self::flex::{FlexVolume, flex_name};
use self::in_tree::{Origin, Sources};
pub(crate) use self::lookup::Lookup;

/// The prefix of the names of CSI volumes.
const PREFIX: &str = "kubernetes.io/csi/";

/// A disk that can be attached to nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// The unique volume name, as in `status.volumesAttached` of nodes.
    pub name: SmolStr,
    /// The name in events, usually that of the PersistentVolume.
    pub title: SmolStr,
    /// Whether it may be attached to one node only.
    pub is_exclusive: bool,
    pub attacher: Attacher,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Attacher {
    /// A CSI driver, through a VolumeAttachment.
    Driver {
        volume: DriverVolume,
        /// What the VolumeAttachment refers to.
        source: Source,
        /// Whether the volume is of an in-tree plugin that the driver has replaced.
        is_migrated: bool,
    },
    /// A FlexVolume driver: a program beside the controller manager.
    Flex(FlexVolume),
    /// The node itself, once the disk is in `status.volumesAttached` (iSCSI, Fibre Channel).
    Node,
}

/// What a VolumeAttachment refers to.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    Volume(SmolStr),
    /// An inline volume of a pod, as the spec of a PersistentVolume.
    Inline(Value),
}

/// A volume of a CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriverVolume {
    pub driver: SmolStr,
    /// The name of the volume in the driver.
    pub handle: SmolStr,
}

impl DriverVolume {
    /// Parses a unique volume name; `None` if it is not that of a CSI volume. Handles may contain `^`, names of drivers may not.
    pub fn named(name: &str) -> Option<Self> {
        let (driver, handle) = name.strip_prefix(PREFIX)?.split_once('^')?;
        let is_valid = !driver.is_empty() && !handle.is_empty();
        is_valid.then(|| Self { driver: driver.into(), handle: handle.into() })
    }

    /// The unique volume name.
    pub fn name(&self) -> SmolStr {
        format_smolstr!("{PREFIX}{}^{}", self.driver, self.handle)
    }

    /// The name of the VolumeAttachment for a node, as upstream forms it.
    pub fn attachment(&self, node: &str) -> SmolStr {
        let text = format!("{}{}{node}", self.handle, self.driver);
        let sum = digest(&SHA256, text.as_bytes());
        let hex: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format_smolstr!("csi-{hex}")
    }
}

/// Whether this is the name of a VolumeAttachment as [`DriverVolume::attachment`] returns it. The disk of one whose volume was
/// deleted may be known by that name only.
pub fn is_attachment_name(name: &str) -> bool {
    let is_hex = |hex: &str| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.strip_prefix("csi-").is_some_and(is_hex)
}

/// Whether `name`, from the status of `node`, is that of `disk`, which may be known only by the name of its VolumeAttachment.
pub fn is_name_of(name: &str, disk: &str, node: &str) -> bool {
    let is_its = || DriverVolume::named(name).is_some_and(|volume| volume.attachment(node) == disk);
    name == disk || (is_attachment_name(disk) && is_its())
}

impl Disk {
    /// The disk behind a PersistentVolume, if it has one that can be attached.
    pub fn of_volume(volume: &PersistentVolume) -> Option<Self> {
        let (title, spec) = (volume.metadata.name.clone(), &volume.spec);
        if let Some(csi) = &spec.csi {
            let behind = DriverVolume { driver: csi.driver.clone(), handle: csi.volume_handle.clone() };
            let is_exclusive = is_exclusive(&spec.access_modes);
            return Some(Self::of_driver(behind, Source::Volume(title.clone()), title, is_exclusive, false));
        }
        let sources = Sources::read(spec.raw().as_str())?;
        if let Some(now) = sources.translate(&Origin::Volume(volume)) {
            let is_exclusive = now.is_exclusive(Some(&spec.access_modes));
            return Some(Self::of_driver(
                now.volume,
                Source::Volume(title.clone()),
                title,
                is_exclusive,
                true,
            ));
        }
        let is_exclusive = is_exclusive(&spec.access_modes);
        if let Some(name) = sources.node_disk() {
            return Some(Self { name, title, is_exclusive, attacher: Attacher::Node });
        }
        // Whether it is attached for reading only is said by the volume of the pod, not by the PersistentVolume.
        let flex = sources.flex(title.clone())?;
        let disk = Self { name: flex.name(), title, is_exclusive, attacher: Attacher::Flex(flex) };
        Some(disk.read_only(false))
    }

    /// The disk of an inline volume, if it can be attached. Inline volumes of CSI drivers cannot.
    pub fn of_inline(namespace: &str, volume: &Volume) -> Option<Self> {
        let VolumeSource::Inline(field, json) = &volume.source else { return None };
        let sources = Sources::read(&format!("{{\"{field}\":{}}}", json.as_str()))?;
        if let Some(now) = sources.translate(&Origin::Pod { namespace, volume: &volume.name }) {
            let (is_exclusive, title, spec) = (now.is_exclusive(None), now.title.clone(), now.spec());
            return Some(Self::of_driver(now.volume, Source::Inline(spec), title, is_exclusive, true));
        }
        let (title, is_exclusive) = (volume.name.clone(), false);
        if let Some(name) = sources.node_disk() {
            return Some(Self { name, title, is_exclusive, attacher: Attacher::Node });
        }
        let flex = sources.flex(title.clone())?;
        Some(Self { name: flex.name(), title, is_exclusive, attacher: Attacher::Flex(flex) })
    }

    /// The CSI driver that attaches it.
    pub fn driver(&self) -> Option<&DriverVolume> {
        match &self.attacher {
            Attacher::Driver { volume, .. } => Some(volume),
            Attacher::Flex(_) | Attacher::Node => None,
        }
    }

    /// The FlexVolume, if it is one.
    pub fn flex(&self) -> Option<&FlexVolume> {
        match &self.attacher {
            Attacher::Flex(volume) => Some(volume),
            _ => None,
        }
    }

    /// The same disk for a pod that only reads it.
    pub(crate) fn read_only(mut self, is_read_only: bool) -> Self {
        if let Attacher::Flex(volume) = &mut self.attacher {
            volume.is_read_only = is_read_only;
        }
        self
    }

    fn of_driver(
        volume: DriverVolume,
        source: Source,
        title: SmolStr,
        is_exclusive: bool,
        is_migrated: bool,
    ) -> Self {
        let name = volume.name();
        Self { name, title, is_exclusive, attacher: Attacher::Driver { volume, source, is_migrated } }
    }
}

/// Whether a volume with these access modes may be attached to one node only. Without access modes, the driver decides.
fn is_exclusive(modes: &[SmolStr]) -> bool {
    !modes.is_empty() && !modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
}
