//! FlexVolume drivers: programs in `--flex-volume-plugin-dir`, at `VENDOR~DRIVER/DRIVER`.
//!
//! [`Drivers`] follows the directory. A driver counts as installed when its call `init` has succeeded, and it is initialised again when
//! its program changes. [`call`] runs one call. A program is killed with its children if it takes too long, writes too much, or its call is
//! no longer awaited, as at the end of this process. (If this process itself is killed outside of a container, its drivers continue, as
//! upstream's do.)
//!
//! Upstream: `pkg/volume/flexvolume`. What differs: the directory is not created if it does not exist; it is read every ten seconds
//! instead of being watched; calls have time limits; `getvolumename` is not called, since upstream does not use its answer; of a
//! driver that cannot be run or prints no JSON, the event says so, and what it printed (upstream: only the error of the parser).

mod call;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flyball_api::names::is_qualified_name;
use flyball_runtime::Chain;
use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::sync::Semaphore;

use self::call::Call;
pub use self::call::{Answer, CallError, answer_in};
use crate::disk::{FlexVolume, flex_name};

/// How often the directory is read.
pub const SCAN_PERIOD: Duration = Duration::from_secs(10);
/// How many programs may run at the same time.
const CONCURRENT_CALLS: usize = 16;
/// How many programs may be initialised at the same time, besides those calls.
const CONCURRENT_INITS: usize = 4;
/// How many missing drivers are remembered, so that each is logged once.
const MISSING_LIMIT: usize = 100;

/// The time limits of calls. Upstream has none.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub init: Duration,
    /// For all other calls. A driver that is killed halfway leaves a volume that may be attached or not, so this is long.
    pub other: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { init: Duration::from_secs(60), other: Duration::from_secs(10 * 60) }
    }
}

/// The drivers in a directory.
pub struct Drivers {
    folder: PathBuf,
    limits: Limits,
    state: Mutex<State>,
    slots: Semaphore,
}

#[derive(Default)]
struct State {
    /// By name, also those that could not be initialised.
    found: BTreeMap<SmolStr, Driver>,
    /// Why the directory could not be read.
    problem: Option<String>,
    /// Drivers that volumes refer to, and that are not installed.
    missing: BTreeSet<SmolStr>,
    is_scanned: bool,
}

struct Driver {
    program: PathBuf,
    stamp: Stamp,
    /// Whether it attaches volumes, or why it could not be initialised.
    can_attach: Result<bool, String>,
    /// Calls that it does not support.
    unsupported: BTreeSet<&'static str>,
}

/// Changes when a program is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    mode: u32,
    changed: (i64, i64),
}

impl Drivers {
    pub fn new(folder: impl Into<PathBuf>, limits: Limits) -> Self {
        let slots = Semaphore::new(CONCURRENT_CALLS);
        Self { folder: folder.into(), limits, state: Mutex::default(), slots }
    }

    /// Whether the driver is installed and attaches volumes.
    pub fn can_attach(&self, driver: &str) -> bool {
        let mut state = self.state.lock();
        if let Some(known) = state.found.get(driver) {
            return known.can_attach == Ok(true);
        }
        let may_report = state.is_scanned && state.missing.len() < MISSING_LIMIT;
        if may_report && state.missing.insert(driver.into()) {
            tracing::info!(driver, folder = %self.folder.display(), "FlexVolume driver is not installed");
        }
        false
    }

    /// Reads the directory, and initialises new and changed drivers. Returns those that have been installed, changed or removed.
    pub async fn scan(&self) -> Vec<SmolStr> {
        // On another thread, since the directory may be on a file system that hangs.
        let folder = self.folder.clone();
        let read = tokio::task::spawn_blocking(move || programs(&folder)).await;
        let programs = match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(programs) => {
                self.state.lock().problem = None;
                programs
            }
            Err(error) => {
                self.report_problem(&error);
                BTreeMap::new()
            }
        };
        let mut changed: Vec<SmolStr> = vec![];
        let new: Vec<_> = {
            let mut state = self.state.lock();
            state.found.retain(|name, _| {
                let stays = programs.contains_key(name);
                if !stays {
                    tracing::info!(driver = %name, "FlexVolume driver was removed");
                    changed.push(name.clone());
                }
                stays
            });
            let is_known = |name: &SmolStr, stamp: &Stamp| {
                state.found.get(name).is_some_and(|known| known.stamp == *stamp && known.can_attach.is_ok())
            };
            programs.into_iter().filter(|(name, (_, stamp))| !is_known(name, stamp)).collect()
        };
        let drivers = new.into_iter().map(|(name, (program, stamp))| self.init(name, program, stamp));
        let mut drivers = stream::iter(drivers).buffer_unordered(CONCURRENT_INITS);
        while let Some((name, driver)) = drivers.next().await {
            let mut state = self.state.lock();
            state.missing.remove(&name);
            let now = driver.can_attach.clone();
            let before = state.found.insert(name.clone(), driver).map(|before| before.can_attach);
            if before.as_ref() == Some(&now) {
                continue;
            }
            match &now {
                Ok(can_attach) => {
                    tracing::info!(driver = %name, can_attach, "FlexVolume driver is installed")
                }
                Err(error) => {
                    tracing::warn!(driver = %name, error, "FlexVolume driver cannot be used; retrying")
                }
            }
            // A driver that could not be used and still cannot has not changed for its volumes, whatever the errors say.
            if !matches!((before, now), (Some(Err(_)), Err(_))) {
                changed.push(name);
            }
        }
        self.state.lock().is_scanned = true;
        changed
    }

    async fn init(&self, name: SmolStr, program: PathBuf, stamp: Stamp) -> (SmolStr, Driver) {
        let (driver, limit) = (name.to_string(), self.limits.init);
        let call = Call { driver, program: program.clone(), name: "init", arguments: vec![], limit };
        let answer = call.run().await;
        let can_attach = answer.map(|answer| answer.can_attach()).map_err(|error| Chain(&error).to_string());
        (name, Driver { program, stamp, can_attach, unsupported: BTreeSet::new() })
    }

    /// Logs that the directory cannot be read, once for each reason.
    fn report_problem(&self, error: &io::Error) {
        let (folder, reason) = (self.folder.display(), error.to_string());
        let mut state = self.state.lock();
        if state.problem.as_ref() == Some(&reason) {
            return;
        }
        if error.kind() == io::ErrorKind::NotFound {
            tracing::info!(%folder, "no FlexVolume drivers: the directory does not exist");
        } else {
            tracing::warn!(%folder, error = reason, "FlexVolume drivers cannot be found");
        }
        state.problem = Some(reason);
    }

    /// Attaches a volume to a node. Returns the path of its device there, which may be empty.
    ///
    /// # Errors
    /// The driver has failed. The volume may be attached or not.
    pub async fn attach(&self, volume: &FlexVolume, node: &str) -> Result<SmolStr, CallError> {
        let arguments = vec![options(volume), node.to_owned()];
        let answer = self.call(&volume.driver, "attach", arguments).await?;
        Ok(answer.map(|answer| answer.device.into()).unwrap_or_default())
    }

    /// Detaches a disk from a node.
    ///
    /// # Errors
    /// The driver has failed. The volume may be attached or not.
    pub async fn detach(&self, disk: &str, node: &str) -> Result<(), CallError> {
        let (driver, volume) = flex_name(disk).unwrap_or((disk, ""));
        self.call(driver, "detach", vec![volume.to_owned(), node.to_owned()]).await.map(|_| ())
    }

    /// Whether a volume is attached to a node; `None` if the driver does not support the question.
    ///
    /// # Errors
    /// The driver has failed.
    pub async fn is_attached(&self, volume: &FlexVolume, node: &str) -> Result<Option<bool>, CallError> {
        let arguments = vec![options(volume), node.to_owned()];
        let answer = self.call(&volume.driver, "isattached", arguments).await?;
        Ok(answer.map(|answer| answer.attached))
    }

    /// `None` if the driver does not support the call.
    async fn call(
        &self,
        driver: &str,
        name: &'static str,
        arguments: Vec<String>,
    ) -> Result<Option<Answer>, CallError> {
        let program = {
            let state = self.state.lock();
            match state.found.get(driver) {
                Some(found) if found.unsupported.contains(name) => return Ok(None),
                Some(found) => found.program.clone(),
                None => {
                    return Err(CallError::NotInstalled { driver: driver.to_owned(), call: name.to_owned() });
                }
            }
        };
        // Never closed.
        let _slot = self.slots.acquire().await;
        let call = Call { driver: driver.to_owned(), program, name, arguments, limit: self.limits.other };
        match call.run().await {
            Ok(answer) => Ok(Some(answer)),
            Err(CallError::NotSupported { .. }) => {
                tracing::debug!(driver, call = name, "FlexVolume driver does not support a call");
                if let Some(found) = self.state.lock().found.get_mut(driver) {
                    found.unsupported.insert(name);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn options(volume: &FlexVolume) -> String {
    serde_json::json!(volume.options()).to_string()
}

/// The programs in the directory, by the names of their drivers: for `VENDOR~DRIVER/DRIVER` that is `VENDOR/DRIVER`.
fn programs(folder: &Path) -> io::Result<BTreeMap<SmolStr, (PathBuf, Stamp)>> {
    let mut found = BTreeMap::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let driver = name.replace('~', "/");
        let program = entry.path().join(driver.rsplit('/').next().unwrap_or(&driver));
        // Not there yet, or no directory of a driver.
        let Ok(metadata) = program.metadata() else { continue };
        if !is_qualified_name(&driver) {
            tracing::debug!(folder = name, "not the name of a FlexVolume driver");
            continue;
        }
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        let stamp = Stamp { inode: metadata.ino(), size: metadata.size(), mode: metadata.mode(), changed };
        found.insert(driver.into(), (program, stamp));
    }
    Ok(found)
}
