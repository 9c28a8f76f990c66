//! Volumes of FlexVolume drivers. Pure.

use std::collections::BTreeMap;

use flyball_api::de::null_default;
use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};

use super::{PREFIX, is_attachment_name};

/// The prefixes of the names of disks that nodes attach themselves.
const NODE_PREFIXES: [&str; 2] = ["kubernetes.io/iscsi/", "kubernetes.io/fc/"];

/// The source of a volume of a pod or of a PersistentVolume.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FlexSource {
    driver: SmolStr,
    fs_type: String,
    read_only: bool,
    #[serde(deserialize_with = "null_default")]
    options: BTreeMap<String, String>,
}

/// A volume of a FlexVolume driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexVolume {
    /// The name of the driver, usually `VENDOR/DRIVER`.
    pub driver: SmolStr,
    /// The name of the PersistentVolume, or of the volume in its pod. The driver detaches the volume by this name.
    pub volume: SmolStr,
    pub is_read_only: bool,
    fs_type: String,
    options: BTreeMap<String, String>,
}

impl FlexVolume {
    /// `None` if no driver is named.
    pub(super) fn new(source: FlexSource, volume: SmolStr) -> Option<Self> {
        let FlexSource { driver, fs_type, read_only: is_read_only, options } = source;
        (!driver.is_empty()).then_some(Self { driver, volume, is_read_only, fs_type, options })
    }

    /// The unique volume name. As in upstream, volumes of the same name in different pods are the same disk.
    pub fn name(&self) -> SmolStr {
        format_smolstr!("{}/{}", self.driver, self.volume)
    }

    /// The argument that describes the volume to its driver. Options of the volume override the others.
    pub fn options(&self) -> BTreeMap<&str, &str> {
        let access = if self.is_read_only { "ro" } else { "rw" };
        let own = [
            ("kubernetes.io/fsType", self.fs_type.as_str()),
            ("kubernetes.io/readwrite", access),
            ("kubernetes.io/pvOrVolumeName", &self.volume),
        ];
        own.into_iter()
            .chain(self.options.iter().map(|(key, value)| (key.as_str(), value.as_str())))
            .collect()
    }
}

/// The driver and the volume in a unique volume name, unless it is of a CSI volume or of a disk that nodes attach themselves.
pub fn flex_name(disk: &str) -> Option<(&str, &str)> {
    let is_other = disk.starts_with(PREFIX)
        || is_attachment_name(disk)
        || NODE_PREFIXES.iter().any(|prefix| disk.starts_with(prefix));
    // Names of volumes have no slashes.
    disk.rsplit_once('/').filter(|(driver, volume)| !is_other && !driver.is_empty() && !volume.is_empty())
}
