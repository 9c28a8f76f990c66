//! Which provisioner, deleter and recycler a volume has. Of the in-tree plugins only host path and NFS are left here;
//! everything else is done by external provisioners. Pure.

use flyball_api::{PersistentVolume, StorageClass};
use serde_json::Value;
use smol_str::SmolStr;

use crate::migration;
use crate::names::{MIGRATED_TO, PROVISIONED_BY};

/// Directories on the machine of the controller manager, for tests on a single node.
pub(crate) const HOST_PATH: &str = "kubernetes.io/host-path";
pub(crate) const NFS: &str = "kubernetes.io/nfs";
/// The label in metrics where no plugin is known.
pub(crate) const UNKNOWN: &str = "N/A";

/// The prefix of in-tree provisioners.
const IN_TREE: &str = "kubernetes.io/";

/// The component that provisions the volumes of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Provisioner {
    /// An external provisioner of this name.
    External(SmolStr),
    HostPath,
}

impl Provisioner {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::External(name) => name,
            Self::HostPath => HOST_PATH,
        }
    }
}

/// The provisioner of a class, or why there is none.
pub(crate) fn provisioner(class: &StorageClass) -> Result<Provisioner, String> {
    let name = class.provisioner.as_str();
    match name {
        HOST_PATH => Ok(Provisioner::HostPath),
        NFS => Err("no provisionable volume plugin matched".into()),
        _ => match migration::driver_of(name) {
            Some(driver) => Ok(Provisioner::External(driver.into())),
            None if name.starts_with(IN_TREE) => Err(format!("no volume plugin matched name: {name}")),
            None => Ok(Provisioner::External(class.provisioner.clone())),
        },
    }
}

/// The component that deletes the storage of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deleter {
    /// An external provisioner.
    External,
    /// This controller; the directory, if the volume has one.
    HostPath(Option<String>),
}

/// The deleter of a volume, or why there is none.
pub(crate) fn deleter(volume: &PersistentVolume) -> Result<Deleter, String> {
    let annotations = &volume.metadata.annotations;
    match annotations.get(PROVISIONED_BY).filter(|provisioner| !provisioner.is_empty()) {
        Some(HOST_PATH) => return Ok(Deleter::HostPath(host_path(volume))),
        Some(NFS) => return Err("no deletable volume plugin matched".into()),
        Some(name) if name.starts_with(IN_TREE) => {
            return Err(format!("no volume plugin matched name: {name}"));
        }
        Some(_) => return Ok(Deleter::External),
        None => {}
    }
    if annotations.contains_key(MIGRATED_TO) || volume.spec.csi.is_some() {
        return Ok(Deleter::External);
    }
    match plugin_of(volume) {
        Some(HOST_PATH) => Ok(Deleter::HostPath(host_path(volume))),
        found => {
            let why = found.map_or("no volume plugin matched", |_| "no deletable volume plugin matched");
            Err(format!("error getting deleter volume plugin for volume {:?}: {why}", volume.metadata.name))
        }
    }
}

/// The in-tree plugin of a volume, if it is left here.
pub(crate) fn plugin_of(volume: &PersistentVolume) -> Option<&'static str> {
    match (&volume.spec.host_path, &volume.spec.nfs) {
        (Some(_), _) => Some(HOST_PATH),
        (None, Some(_)) => Some(NFS),
        (None, None) => None,
    }
}

fn host_path(volume: &PersistentVolume) -> Option<String> {
    let source = volume.spec.host_path.as_ref()?.to_value();
    source.get("path").and_then(Value::as_str).map(str::to_owned)
}
