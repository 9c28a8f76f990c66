//! Where the kubeconfig is.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The file that was asked for, or `~/.flyball/kubeconfig`.
pub(crate) fn kubeconfig(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = asked {
        return std::path::absolute(path).with_context(|| format!("--kubeconfig {}", path.display()));
    }
    match std::env::home_dir().filter(|home| !home.as_os_str().is_empty()) {
        Some(home) => Ok(home.join(".flyball").join("kubeconfig")),
        None => bail!("there is no home directory for the kubeconfig; name a file with --kubeconfig"),
    }
}

/// Writes a file that only its owner may read, all of it or nothing.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        out.write_all(text.as_bytes())?;
        std::fs::rename(&beside, path)
    };
    write().with_context(|| format!("write {}", path.display()))
}
