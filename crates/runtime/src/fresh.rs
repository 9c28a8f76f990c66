//! Files that may change while the process runs. They are checked when they are needed, at most once a second, and parsed
//! again when they have changed. If the new contents are invalid, the old value stays.

use std::{
    fs, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::time::Instant;

const RECHECK_AFTER: Duration = Duration::from_secs(1);

type Stamp = Vec<Option<(SystemTime, u64)>>;
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// A value that is parsed from one or more files.
pub struct Fresh<T> {
    files: Vec<PathBuf>,
    parse: Parse<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Arc<T>,
    stamp: Stamp,
    looked: Instant,
}

impl<T> Fresh<T> {
    /// Reads the files for the first time; the error names the file.
    pub fn new(
        files: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let stamp = stamp(&files);
        let value = Arc::new(load(&files, &parse)?);
        let state = Mutex::new(State { value, stamp, looked: Instant::now() });
        Ok(Self { files, parse: Box::new(parse), state })
    }

    /// The current value. Checks the files if the last check was more than a second ago.
    pub fn get(&self) -> Arc<T> {
        let mut state = self.state.lock();
        if state.looked.elapsed() >= RECHECK_AFTER {
            state.looked = Instant::now();
            let stamp = stamp(&self.files);
            if stamp != state.stamp {
                match load(&self.files, &self.parse) {
                    Ok(value) => {
                        tracing::info!(files = ?self.files, "files have changed and were read again");
                        state.value = Arc::new(value);
                        state.stamp = stamp;
                    }
                    Err(problem) => {
                        tracing::warn!(problem, "changed files cannot be used; keeping the old version")
                    }
                }
            }
        }
        state.value.clone()
    }
}

fn stamp(files: &[PathBuf]) -> Stamp {
    files
        .iter()
        .map(|file| fs::metadata(file).and_then(|data| Ok((data.modified()?, data.len()))).ok())
        .collect()
}

fn load<T>(files: &[PathBuf], parse: impl Fn(&[Vec<u8>]) -> Result<T, String>) -> Result<T, String> {
    let read = |file: &PathBuf| {
        fs::read(file).map_err(|error: io::Error| format!("cannot read {}: {error}", file.display()))
    };
    let contents: Vec<Vec<u8>> = files.iter().map(read).collect::<Result<_, _>>()?;
    parse(&contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_read_again_and_unusable_ones_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "1").unwrap();
        let parse = |contents: &[Vec<u8>]| {
            String::from_utf8_lossy(&contents[0]).parse::<u32>().map_err(|error| error.to_string())
        };
        let fresh = Fresh::new(vec![file.clone()], parse).unwrap();
        for (content, want) in [("1", 1), ("22", 22), ("no number", 22), ("333", 333)] {
            std::fs::write(&file, content).unwrap();
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(*fresh.get(), want, "{content}");
        }
        std::fs::remove_file(&file).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(*fresh.get(), 333, "a file that is gone leaves the last version");
    }
}
