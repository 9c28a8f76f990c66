//! Reads the configuration file, again whenever it has changed.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::config::Config;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} does not describe a simulated cloud", path.display())]
    Malformed {
        path: PathBuf,
        #[source]
        source: serde_yaml::Error,
    },
    #[error("{}: {problem}", path.display())]
    Senseless { path: PathBuf, problem: String },
}

/// Identifies one version of the file.
type Stamp = Option<(SystemTime, u64)>;

pub(super) struct File {
    path: PathBuf,
    seen: Stamp,
}

impl File {
    /// Reads the file for the first time.
    pub(super) fn open(path: &Path) -> Result<(Self, Config), ConfigError> {
        let stamp = std::fs::metadata(path).ok().and_then(|metadata| stamp(&metadata));
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let config = parse(path, &text)?;
        Ok((Self { path: path.to_owned(), seen: stamp }, config))
    }

    /// The configuration, if the file has changed since it was last read. An invalid file is ignored.
    ///
    /// The read is synchronous, although it blocks: no other call may see the old configuration in between.
    pub(super) fn changed(&mut self) -> Option<Config> {
        let now = std::fs::metadata(&self.path).ok().and_then(|metadata| stamp(&metadata))?;
        if self.seen.replace(now) == Some(now) {
            return None;
        }
        let text = std::fs::read_to_string(&self.path);
        let text = text.map_err(|source| ConfigError::Unreadable { path: self.path.clone(), source });
        match text.and_then(|text| parse(&self.path, &text)) {
            Ok(config) => {
                tracing::info!(file = %self.path.display(), "the simulated cloud has changed");
                Some(config)
            }
            Err(error) => {
                let error = flyball_runtime::Chain(&error);
                tracing::warn!(%error, "the simulated cloud stays as it was");
                None
            }
        }
    }
}

fn stamp(metadata: &std::fs::Metadata) -> Stamp {
    metadata.modified().ok().map(|modified| (modified, metadata.len()))
}

fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let config: Config = serde_yaml::from_str(text)
        .map_err(|source| ConfigError::Malformed { path: path.to_owned(), source })?;
    match config.problem() {
        Some(problem) => Err(ConfigError::Senseless { path: path.to_owned(), problem }),
        None => Ok(config),
    }
}
