//! The context of a cluster in the kubeconfigs that kubectl reads.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

use super::yaml::{self, Entries};
use crate::place;

/// How long another program may hold the lock of a kubeconfig: it writes one file.
const ATTEMPTS: u32 = 50;
const ATTEMPT_EVERY: Duration = Duration::from_millis(100);

/// The file that takes a new context: the first of `$KUBECONFIG` that exists, or the last of them; without any, `~/.kube/config`.
// Upstream: client-go, tools/clientcmd/config.go, GetDefaultFilename.
pub(crate) fn usual() -> anyhow::Result<PathBuf> {
    let list = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let files: Vec<PathBuf> =
        std::env::split_paths(&list).filter(|file| !file.as_os_str().is_empty()).collect();
    let chosen = files.iter().find(|file| file.exists()).or(files.last());
    match (chosen, std::env::home_dir().filter(|home| !home.as_os_str().is_empty())) {
        (Some(file), _) => {
            std::path::absolute(file).with_context(|| format!("KUBECONFIG: {}", file.display()))
        }
        (None, Some(home)) => Ok(home.join(".kube").join("config")),
        (None, None) => bail!("there is no home directory for the kubeconfig; name a file with --kubeconfig"),
    }
}

/// Fails if a kubeconfig cannot be changed, before there is anything to write into it.
pub(crate) fn check(file: &Path) -> anyhow::Result<()> {
    let text = read(file)?;
    yaml::check(&text).map_err(|why| broken(file, &why))?;
    // The first to find out that the folder is not writable.
    Lock::take(file).map(drop)
}

/// The kubeconfig of one cluster, with the names under which it is merged.
pub(crate) fn renamed(kubeconfig: &str, context: &str) -> anyhow::Result<String> {
    let entries = Entries::of(kubeconfig, context).context("read the new kubeconfig")?;
    yaml::with("", &entries).map_err(|why| anyhow!("make the kubeconfig: {why}"))
}

/// Adds or updates a cluster, and makes it the current one.
pub(crate) fn add(file: &Path, kubeconfig: &str, context: &str) -> anyhow::Result<()> {
    let entries = Entries::of(kubeconfig, context).context("read the new kubeconfig")?;
    change(file, |text| yaml::with(text, &entries))
}

/// Removes a cluster. A file that holds nothing else afterwards is removed, too.
pub(crate) fn remove(file: &Path, context: &str) -> anyhow::Result<()> {
    match file.exists() {
        true => change(file, |text| yaml::without(text, context)),
        false => Ok(()),
    }
}

fn change(file: &Path, make: impl FnOnce(&str) -> Result<String, String>) -> anyhow::Result<()> {
    let _lock = Lock::take(file)?;
    let text = read(file)?;
    let changed = make(&text).map_err(|why| broken(file, &why))?;
    if changed == text {
        return Ok(());
    }
    // Dotfiles are often links, which stay.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if yaml::is_bare(&changed) {
        return std::fs::remove_file(&target).with_context(|| format!("remove {}", file.display()));
    }
    place::write_private(&target, &changed)
}

/// The text of a kubeconfig; nothing if there is none.
fn read(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(String::new())
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot read the kubeconfig {}; name another file with --kubeconfig", file.display())
        }),
    }
}

fn broken(file: &Path, why: &str) -> anyhow::Error {
    anyhow!(
        "{} is not a kubeconfig, so it is left alone: {why}; mend it, name another file with --kubeconfig, or leave it out with \
         --no-kubeconfig",
        file.display()
    )
}

/// kubectl's lock of a kubeconfig: a file beside it that must not exist.
struct Lock(PathBuf);

impl Lock {
    fn take(file: &Path) -> anyhow::Result<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let unwritable =
            || format!("cannot write the kubeconfig {}; name another file with --kubeconfig", file.display());
        let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        for _ in 0..ATTEMPTS {
            let opened = match (open(), file.parent()) {
                (Err(error), Some(folder)) if error.kind() == ErrorKind::NotFound => {
                    std::fs::create_dir_all(folder).with_context(unwritable)?;
                    open()
                }
                (opened, _) => opened,
            };
            match opened {
                Ok(_) => return Ok(Self(path)),
                // kubectl would fail at once. Nothing tells when such a lock is released, so this looks again.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => std::thread::sleep(ATTEMPT_EVERY),
                Err(error) => return Err(error).with_context(unwritable),
            }
        }
        bail!(
            "{} exists, so another program is changing {}; if none is, remove it",
            path.display(),
            file.display()
        )
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const OWN: &str =
        "clusters: [{name: x, cluster: {server: 'https://1'}}]\nusers: [{name: x, user: {token: t}}]\n";

    #[test]
    fn a_link_and_the_mode_of_its_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("config"));
        std::fs::write(&real, "clusters: [{name: prod, cluster: {}}]\n").unwrap();
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        add(&link, OWN, "flyball-a").unwrap();
        assert!(link.is_symlink());
        assert!(std::fs::read_to_string(&real).unwrap().contains("flyball-a"));
        assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        remove(&link, "flyball-a").unwrap();
        assert!(!std::fs::read_to_string(&real).unwrap().contains("flyball-a"));
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
    }

    #[test]
    fn a_new_file_is_private_and_goes_with_its_only_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/config");
        add(&file, OWN, "flyball-a").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        remove(&file, "flyball-b").unwrap();
        assert!(file.exists());
        remove(&file, "flyball-a").unwrap();
        assert!(!file.exists());
        remove(&file, "flyball-a").unwrap();
    }

    #[test]
    fn a_broken_file_is_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, "clusters: [").unwrap();
        for outcome in [check(&file), add(&file, OWN, "flyball-a"), remove(&file, "flyball-a")] {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("config is not a kubeconfig, so it is left alone"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "clusters: [");
    }

    #[test]
    fn a_lock_that_is_released_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let lock = Lock::take(&file).unwrap();
        let other = std::thread::spawn({
            let file = file.clone();
            move || add(&file, OWN, "flyball-a")
        });
        drop(lock);
        other.join().unwrap().unwrap();
        assert!(file.exists());
    }
}
