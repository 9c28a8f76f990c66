//! Volumes that are directories of this machine, for tests on a single node. Blocking file system calls.
//!
//! Upstream: `pkg/volume/hostpath`, which also gives a new directory the SELinux label of containers.

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
    if mode == "Block" {
        return Err(format!("{HOST_PATH} does not support block volume provisioning"));
    }
    create_all(Path::new(path))
}

/// An error names the first directory that cannot be created.
fn create_all(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt;
    let failed = |error| error_text("mkdir", path, &error);
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(failed(io::ErrorKind::NotADirectory.into())),
        Err(_) => {}
    }
    path.parent().map_or(Ok(()), create_all)?;
    match std::fs::DirBuilder::new().mode(0o750).create(path) {
        // Another attempt has created it.
        Err(_) if path.is_dir() => Ok(()),
        created => created.map_err(failed),
    }
}

/// An error of a system call as Go prints it, which is part of events and of `status.message`.
fn error_text(call: &str, path: &Path, error: &io::Error) -> String {
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or_default();
    format!("{call} {}: {}", path.display(), why.to_lowercase())
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
    // What in the directory cannot be removed is not known, only why: the standard library removes it safely, but does not say.
    let path = Path::new(path);
    remove_all(path).map_err(|error| error_text("unlinkat", path, &error))
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
    fn errors_read_as_those_of_go() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", folder.path().display());
        assert_eq!(create(&at("a/b"), "Filesystem"), Ok(()));
        assert_eq!(create(&at("a/b"), "Filesystem"), Ok(()), "a second attempt");
        std::fs::write(at("file"), "").unwrap();
        for path in ["file", "file/a/b"] {
            let want = format!("mkdir {}: not a directory", at("file"));
            assert_eq!(create(&at(path), "Filesystem"), Err(want), "{path}");
        }
        let denied = io::Error::from_raw_os_error(13);
        assert_eq!(
            error_text("unlinkat", Path::new("/tmp/a"), &denied),
            "unlinkat /tmp/a: permission denied"
        );
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
