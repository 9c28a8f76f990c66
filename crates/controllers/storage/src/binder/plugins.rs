//! Who makes, empties and removes what is behind a volume. Of the plugins that once were in the tree only host paths
//! and NFS shares are left here; everything else is done by external provisioners. Pure.

use flyball_api::{PersistentVolume, StorageClass};
use serde_json::Value;
use smol_str::SmolStr;

use crate::migration;
use crate::names::{MIGRATED_TO, PROVISIONED_BY};

/// Directories of the machine that the controller manager runs on, for trying things out on a single node.
pub(crate) const HOST_PATH: &str = "kubernetes.io/host-path";
pub(crate) const NFS: &str = "kubernetes.io/nfs";
/// What metrics say where no plugin is known.
pub(crate) const UNKNOWN: &str = "N/A";

/// Provisioners with such names are meant to be in the tree.
const IN_TREE: &str = "kubernetes.io/";

/// Who makes volumes of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Maker {
    /// A provisioner outside, by name.
    External(SmolStr),
    HostPath,
}

/// Who makes volumes of a class, or why nobody does.
pub(crate) fn maker(class: &StorageClass) -> Result<Maker, String> {
    let provisioner = class.provisioner.as_str();
    match provisioner {
        HOST_PATH => Ok(Maker::HostPath),
        NFS => Err("no provisionable volume plugin matched".into()),
        _ => match migration::driver_of(provisioner) {
            Some(driver) => Ok(Maker::External(driver.into())),
            None if provisioner.starts_with(IN_TREE) => {
                Err(format!("no volume plugin matched name: {provisioner}"))
            }
            None => Ok(Maker::External(class.provisioner.clone())),
        },
    }
}

/// Who removes what is behind a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remover {
    External,
    /// We do; the directory, if the volume is one.
    HostPath(Option<String>),
}

/// Who removes what is behind a volume, or why nobody does.
pub(crate) fn remover(volume: &PersistentVolume) -> Result<Remover, String> {
    let annotations = &volume.metadata.annotations;
    match annotations.get(PROVISIONED_BY).filter(|provisioner| !provisioner.is_empty()) {
        Some(HOST_PATH) => return Ok(Remover::HostPath(host_path(volume))),
        Some(NFS) => return Err("no deletable volume plugin matched".into()),
        Some(name) if name.starts_with(IN_TREE) => {
            return Err(format!("no volume plugin matched name: {name}"));
        }
        Some(_) => return Ok(Remover::External),
        None => {}
    }
    if annotations.contains_key(MIGRATED_TO) || volume.spec.csi.is_some() {
        return Ok(Remover::External);
    }
    match plugin_of(volume) {
        Some(HOST_PATH) => Ok(Remover::HostPath(host_path(volume))),
        found => {
            let why = found.map_or("no volume plugin matched", |_| "no deletable volume plugin matched");
            Err(format!("error getting deleter volume plugin for volume {:?}: {why}", volume.metadata.name))
        }
    }
}

/// The plugin that a volume is of, if it is one of those here.
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
