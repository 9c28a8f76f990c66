//! A configuration file that is read again whenever it has changed. A file that cannot be read, or is invalid, changes nothing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use flyball_runtime::Chain;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// Why a configuration file cannot be used. Its text has the file, the line if it is known, and what is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}{}: {problem}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Invalid { path: PathBuf, line: Option<usize>, problem: String },
}

/// The contents of a [`ConfigFile`].
pub trait Checked: DeserializeOwned + Send + Sync + 'static {
    /// What is invalid, if anything, although every field by itself is valid. Name the field, and what would be right.
    /// Problems of one value are better found while it is read, by [`Written`](super::Written), since they then have its line.
    fn problem(&self) -> Option<String> {
        None
    }
}

/// A YAML file with a `T`.
///
/// ```
/// use flyball_cloud::kit::{Checked, ConfigFile};
///
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Machines { names: Vec<String> }
/// impl Checked for Machines {}
///
/// # let path = std::env::temp_dir().join(format!("flyball-doc-{}", std::process::id()));
/// std::fs::write(&path, "names: [a, b]")?;
/// let file = ConfigFile::<Machines>::open(&path)?;
/// std::fs::write(&path, "names: [a, b, c")?; // logged, and otherwise ignored
/// assert_eq!(file.current().names, ["a", "b"]);
/// assert!(file.error().unwrap().contains("did not find expected ',' or ']'"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ConfigFile<T> {
    path: PathBuf,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    seen: Stamp,
    value: Arc<T>,
    /// Why the file as it is now is not in use.
    error: Option<String>,
}

/// Identifies one version of the file; `None` if there is none. The inode tells two files apart that replace each other within
/// the resolution of the time.
type Stamp = Option<(SystemTime, u64, u64)>;

impl<T: Checked> ConfigFile<T> {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// It cannot be read, or is invalid.
    pub fn open(path: &Path) -> Result<Self, ConfigError> {
        let seen = stamp(path);
        let value = Arc::new(read(path)?);
        Ok(Self { path: path.to_owned(), state: Mutex::new(State { seen, value, error: None }) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The contents when the file was last valid.
    ///
    /// This reads the file if it has changed, and blocks so long: no other call may see the old contents meanwhile.
    pub fn current(&self) -> Arc<T> {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        state.value.clone()
    }

    /// The contents, if they have changed since they were last asked for.
    pub fn changed(&self) -> Option<Arc<T>> {
        let mut state = self.state.lock();
        self.refresh(&mut state).then(|| state.value.clone())
    }

    /// Why the file as it is now is not in use, if it is not.
    pub fn error(&self) -> Option<String> {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        state.error.clone()
    }

    /// Reads the file if it has changed; whether there are other contents now.
    fn refresh(&self, state: &mut State<T>) -> bool {
        let now = stamp(&self.path);
        if now == state.seen {
            return false;
        }
        state.seen = now;
        match read(&self.path) {
            Ok(value) => {
                tracing::info!(file = %self.path.display(), "the configuration of the cloud has changed");
                (state.value, state.error) = (Arc::new(value), None);
                true
            }
            Err(error) => {
                let error = Chain(&error).to_string();
                tracing::error!(error, "the configuration of the cloud stays as it was");
                state.error = Some(error);
                false
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

fn read<T: Checked>(path: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(&text).map_err(|(line, problem)| ConfigError::Invalid { path: path.to_owned(), line, problem })
}

/// Reads the text of a configuration file.
///
/// # Errors
/// What is wrong, with the line if it is known.
pub fn parse<T: Checked>(text: &str) -> Result<T, (Option<usize>, String)> {
    let value: T = serde_yaml::from_str(text)
        .map_err(|error| (error.location().map(|at| at.line()), error.to_string()))?;
    match value.problem() {
        Some(problem) => Err((None, problem)),
        None => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use serde::Deserialize;

    use super::*;
    use crate::kit::Written;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Ports {
        first: u32,
        #[serde(default)]
        second: u32,
        #[serde(default)]
        gateway: Option<Written<IpAddr>>,
    }

    impl Checked for Ports {
        fn problem(&self) -> Option<String> {
            (self.second == self.first).then(|| format!("second must not be {}, as first is", self.first))
        }
    }

    #[test]
    fn errors_name_the_file_the_line_and_what_would_be_right() {
        #[rustfmt::skip]
        let table = [
            ("# comment\nfirst: x\n",      ":2: ", "expected u32"),
            ("first: 1\nsecnd: 2\n",       ":2: ", "unknown field `secnd`, expected one of `first`, `second`, `gateway`"),
            ("first: 1\ngateway: ten\n",   ":2: ", "\"ten\" is not an address such as 10.0.0.1"),
            ("first: 1\nsecond: 1\n",      ": ",   "second must not be 1, as first is"),
            ("first: 'x\n",                 ":2: ", "found unexpected end of stream"),
        ];
        for (text, line, want) in table {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let error = ConfigFile::<Ports>::open(file.path()).unwrap_err().to_string();
            let start = format!("{}{line}", file.path().display());
            assert!(error.starts_with(&start) && error.contains(want), "{text:?}: {error}");
        }
        let missing = ConfigFile::<Ports>::open(Path::new("no-such-file")).unwrap_err();
        let shown = Chain(&missing).to_string();
        assert!(shown.starts_with("cannot read no-such-file: No such file"), "{shown}");
    }

    #[test]
    fn a_file_that_vanishes_or_breaks_changes_nothing_until_it_is_valid_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ports.yaml");
        std::fs::write(&path, "first: 1").unwrap();
        let file = ConfigFile::<Ports>::open(&path).unwrap();
        assert!(file.changed().is_none() && file.error().is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(file.changed().is_none());
        assert!(file.error().unwrap().starts_with("cannot read "));
        assert_eq!(file.current().first, 1);
        std::fs::write(&path, "first: none").unwrap();
        assert_eq!(file.current().first, 1);
        assert!(file.error().unwrap().contains("ports.yaml:1: "));
        // Replaced by a file of the same length: the inode differs, if the time does not.
        let new = folder.path().join("new");
        std::fs::write(&new, "first: 4444").unwrap();
        std::fs::rename(&new, &path).unwrap();
        let changed = file.changed().unwrap();
        assert_eq!((changed.first, changed.gateway), (4444, None));
        assert!(file.changed().is_none() && file.error().is_none());
    }
}
