//! Volumes that are directories of this machine, for tests on a single node. Blocking file system calls.

use std::io;
use std::path::Path;

use flyball_api::{PersistentVolumeClaim, RawJson};
use serde_json::json;

use super::plugins::HOST_PATH;

/// Directories are created and removed below this one only.
const ROOT: &str = "/tmp/";

/// The directory for a claim, named after the claim's uid, so that a second attempt uses the same directory.
pub(super) fn path_for(claim: &PersistentVolumeClaim) -> String {
    let hex = format!("{:032x}", RawJson::from_value(&json!(claim.metadata.uid)).digest());
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &hex[range]);
    format!("{ROOT}hostpath_pv/{}", parts.join("-"))
}

/// Creates the directory of a volume.
pub(super) fn create(path: &str, mode: &str) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt;
    if mode == "Block" {
        return Err(format!("{HOST_PATH} does not support block volume provisioning"));
    }
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(path);
    created.map_err(|error| error.to_string())
}

/// Removes the directory of a volume with its contents, if it exists.
pub(super) fn remove(volume: &str, path: Option<&str>) -> Result<(), String> {
    let Some(path) = path else {
        let why = "spec.PersistentVolumeSource.HostPath is nil";
        return Err(format!("failed to create deleter for volume {volume:?}: {why}"));
    };
    // Upstream: hostpath.Delete matches `/tmp/.+` anywhere; a path that only contains it is refused here.
    if !is_below_root(path) {
        return Err(format!("host_path deleter only supports /tmp/.+ but received provided {path}"));
    }
    remove_all(Path::new(path)).map_err(|error| error.to_string())
}

fn is_below_root(path: &str) -> bool {
    let rest = path.strip_prefix(ROOT).unwrap_or_default();
    !rest.is_empty() && !rest.split('/').any(|part| part == "..")
}

fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_one_directory() {
        let claim = |uid: &str| serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap();
        let path = path_for(&claim("a"));
        assert_eq!((path.len(), path.starts_with("/tmp/hostpath_pv/")), (53, true), "{path}");
        assert_eq!(path, path_for(&claim("a")));
        assert_ne!(path, path_for(&claim("b")));
    }

    #[test]
    fn only_directories_below_the_root_are_removed() {
        #[rustfmt::skip]
        let table = [
            ("/tmp/a",              true),
            ("/tmp/a/b..c",         true),
            ("/tmp/",               false),
            ("/tmp",                false),
            ("/data/tmp/a",         false),
            ("/tmp/../etc",         false),
            ("/tmp/a/../../etc",    false),
        ];
        for (path, want) in table {
            assert_eq!(is_below_root(path), want, "{path}");
        }
    }
}
