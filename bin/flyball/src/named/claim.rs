//! Who holds a name. The lock ends with its process, even one that is killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::{HOME, Name, Place, State};

const LOCK: &str = "lock";
/// Alternatives to a default name that are tried.
const ALTERNATIVES: u32 = 1000;

/// A name that this process holds. What it keeps under that name is removed when it is dropped, except what `keep` says.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) name: Name,
    pub(crate) place: Place,
    /// Left by an earlier cluster of that name: one that was stopped and is kept, or one that was killed.
    pub(crate) earlier: Option<State>,
    keep: bool,
    _lock: File,
}

/// What a user asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted<'a> {
    Exactly(&'a Name),
    Default,
    /// The default name, or the next free one that is similar.
    Any,
}

impl Claim {
    pub(crate) fn take(wanted: Wanted<'_>) -> anyhow::Result<Self> {
        let home = super::home()?;
        let exactly = |name: &Name| match Self::try_take(&home, name)? {
            Some(claim) => Ok(claim),
            None => bail!("{}", taken(name)),
        };
        match wanted {
            Wanted::Exactly(name) => exactly(name),
            Wanted::Default => exactly(&Name::default()),
            Wanted::Any => {
                let first = Name::default();
                let numbered = (2..=ALTERNATIVES).map(|n| first.numbered(n));
                for name in std::iter::once(first.clone()).chain(numbered) {
                    if let Some(claim) = Self::try_take(&home, &name)? {
                        return Ok(claim);
                    }
                }
                bail!("{ALTERNATIVES} clusters run; stop some with `flyball down`");
            }
        }
    }

    /// Takes a name, unless another process holds it.
    pub(crate) fn try_take(home: &Path, name: &Name) -> anyhow::Result<Option<Self>> {
        let place = Place::under(home, name);
        let folder = place.folder();
        let mut builder = std::fs::DirBuilder::new();
        // Who can open the socket in it controls the cluster.
        builder.recursive(true).mode(0o700);
        let path = folder.join(LOCK);
        loop {
            builder.create(folder).with_context(|| {
                format!(
                    "create {} (the variable {HOME} names another folder for such files)",
                    folder.display()
                )
            })?;
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let lock = match options.open(&path) {
                Ok(lock) => lock,
                // Its last holder has just removed the folder.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
            };
            match lock.try_lock() {
                Ok(()) if !is_at(&lock, &path) => {}
                Ok(()) => {
                    // For who waits for it to end: its state is written only once it runs.
                    let told = lock
                        .set_len(0)
                        .and_then(|()| (&lock).write_all(std::process::id().to_string().as_bytes()));
                    told.with_context(|| format!("write {}", path.display()))?;
                    let earlier = place.state();
                    let keep = earlier.is_some();
                    return Ok(Some(Self { name: name.clone(), place, earlier, keep, _lock: lock }));
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("lock {}", path.display()));
                }
            }
        }
    }

    /// Writes down what others may know.
    pub(crate) fn write(&self, state: &State) -> anyhow::Result<()> {
        self.place.write_state(state)
    }

    /// Keeps what is known about the cluster after its end.
    pub(crate) fn keep(&mut self, state: &State) -> anyhow::Result<()> {
        self.keep = true;
        self.place.write_state(state)
    }

    /// Nothing of an earlier cluster is kept any more: this one has taken its place.
    pub(crate) fn succeed(&mut self) {
        self.keep = false;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.place.socket());
        if !self.keep {
            let _ = std::fs::remove_dir_all(self.place.folder());
        }
    }
}

/// Whether a file is still the one at its path: another process may have removed it between opening and locking.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// The process that holds the name, or held it last.
pub(crate) fn holder(folder: &Path) -> Option<u32> {
    std::fs::read_to_string(folder.join(LOCK)).ok()?.parse().ok()
}

/// Returns when no process holds the name. It blocks.
pub(crate) fn wait_until_free(folder: PathBuf) -> std::io::Result<()> {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.lock_shared(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn taken(name: &Name) -> String {
    let beside = match name.is_default() {
        true => "start this one beside it with `flyball up --name NAME`",
        false => "choose another --name",
    };
    format!("the cluster {:?} is already running: stop it with `{}`, or {beside}", name.as_str(), down(name))
}

/// The command that ends a cluster.
pub(crate) fn down(name: &Name) -> String {
    if name.is_default() { "flyball down".to_owned() } else { format!("flyball down {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &Name) -> State {
        State {
            name: name.clone(),
            pid: 1,
            started: "2026-03-01T12:00:00Z".parse().unwrap(),
            server: None,
            kubeconfig: "/k".into(),
            merged: Vec::new(),
            data_dir: None,
            log: None,
            stopped: false,
        }
    }

    #[test]
    fn a_name_has_one_holder_who_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let name = Name::default();
        let take = || Claim::try_take(home.path(), &name).unwrap();
        let mut first = take().unwrap();
        assert_eq!(holder(&home.path().join("clusters/flyball")), Some(std::process::id()));
        assert!(first.earlier.is_none() && take().is_none());
        first.write(&state(&name)).unwrap();
        first.succeed();
        drop(first);
        assert!(!home.path().join("clusters/flyball").exists());

        let mut kept = take().unwrap();
        kept.keep(&state(&name)).unwrap();
        drop(kept);
        assert_eq!(take().unwrap().earlier, Some(state(&name)), "what was kept is found");
        assert!(home.path().join("clusters/flyball/state.json").exists(), "and stays if nobody succeeds it");
    }

    #[test]
    fn who_waits_for_a_name_is_woken_by_its_end() {
        let home = tempfile::tempdir().unwrap();
        let claim = Claim::try_take(home.path(), &Name::default()).unwrap().unwrap();
        let folder = claim.place.folder().to_owned();
        let waiter = std::thread::spawn(move || wait_until_free(folder));
        drop(claim);
        waiter.join().unwrap().unwrap();
    }
}
