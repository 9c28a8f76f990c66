//! The path and the file of the kubeconfig.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The given file, or `~/.flyball/kubeconfig`.
pub(crate) fn kubeconfig(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = asked {
        return std::path::absolute(path).with_context(|| format!("--kubeconfig {}", path.display()));
    }
    match std::env::home_dir().filter(|home| !home.as_os_str().is_empty()) {
        Some(home) => Ok(home.join(".flyball").join("kubeconfig")),
        None => bail!("there is no home directory for the kubeconfig; name a file with --kubeconfig"),
    }
}

/// Host and port of the server in a kubeconfig that `flyball up` wrote.
pub(crate) fn server(kubeconfig: &Path) -> Option<String> {
    let text = std::fs::read_to_string(kubeconfig).ok()?;
    let server = text.lines().find_map(|line| line.trim().strip_prefix("server: https://"))?;
    Some(server.trim_end_matches('/').to_owned())
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
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let mut options = std::fs::OpenOptions::new();
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
