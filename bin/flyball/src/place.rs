//! The files that `flyball` writes.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A path as `--kubeconfig` gives it.
pub(crate) fn kubeconfig(asked: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(asked).with_context(|| format!("--kubeconfig {}", asked.display()))
}

/// Replaces a file in one step. Others may read a new one only if they may read what it replaces.
pub(crate) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let mode = std::fs::metadata(path).map_or(0o600, |there| there.permissions().mode() & 0o777);
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().with_context(|| {
        let _ = std::fs::remove_file(&beside);
        format!("write {}", path.display())
    })
}

/// A file that only its owner may read, written in one step. It is opened before there is anything to write, so that an
/// unwritable path fails early; if it is dropped unwritten, nothing is left behind.
pub(crate) struct Draft {
    path: PathBuf,
    beside: PathBuf,
    file: File,
}

impl Draft {
    pub(crate) fn of(path: &Path) -> anyhow::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let open = || -> std::io::Result<File> {
            if path.is_dir() {
                return Err(std::io::ErrorKind::IsADirectory.into());
            }
            match (options.open(&beside), path.parent()) {
                (Err(error), Some(folder)) if error.kind() == std::io::ErrorKind::NotFound => {
                    std::fs::create_dir_all(folder)?;
                    options.open(&beside)
                }
                (opened, _) => opened,
            }
        };
        let file = open().with_context(|| {
            format!("cannot write the kubeconfig {}; name another file with --kubeconfig", path.display())
        })?;
        Ok(Self { path: path.to_owned(), beside, file })
    }

    pub(crate) fn write(mut self, text: &str) -> anyhow::Result<()> {
        let mut write = || {
            self.file.write_all(text.as_bytes())?;
            std::fs::rename(&self.beside, &self.path)
        };
        write().with_context(|| format!("cannot write the kubeconfig {}", self.path.display()))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Does not exist any more if it was written (renamed).
        let _ = std::fs::remove_file(&self.beside);
    }
}
