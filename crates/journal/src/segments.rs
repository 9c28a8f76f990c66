//! The files of a journal. One is written; the oldest are removed when all together are too large, or too old.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use flyball_runtime::Clock;
use flyball_runtime::decisions::Decision;
use parking_lot::Mutex;

use crate::line::Line;

const ENDING: &str = ".jsonl.gz";
/// Of how many files a journal of full size consists, so that removing one costs little.
const FILES: u64 = 16;
/// How much of the latest files a search reads: about half a second.
const SEARCHED: u64 = 16 << 20;
/// No block is larger when it is unpacked. What claims to be is damaged.
const LARGEST_BLOCK: u64 = 16 << 20;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together, compressed.
    pub size: u64,
    pub age: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("the journal in {} cannot be used", folder.display())]
pub struct OpenError {
    folder: PathBuf,
    #[source]
    source: io::Error,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    number: u64,
    /// When it was begun, in seconds since 1970.
    begun: i64,
    size: u64,
}

impl Segment {
    /// From the name of its file, such as `00000007-1772366400.jsonl.gz`.
    fn parse(name: &str, size: u64) -> Option<Self> {
        let (number, begun) = name.strip_suffix(ENDING)?.split_once('-')?;
        Some(Self { number: number.parse().ok()?, begun: begun.parse().ok()?, size })
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{:08}-{}{ENDING}", self.number, self.begun))
    }
}

/// The files that are written.
pub(crate) struct Segments {
    folder: PathBuf,
    limits: Limits,
    clock: Clock,
    run: u64,
    /// Oldest first. The last one is written, once there is `file`.
    kept: Arc<Mutex<VecDeque<Segment>>>,
    file: Option<File>,
}

impl Segments {
    pub(crate) fn open(folder: &Path, limits: Limits, clock: Clock) -> Result<Self, OpenError> {
        let failed = |source| OpenError { folder: folder.to_owned(), source };
        // Readable for the owner only: object names and reasons may be confidential.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let kept = Arc::new(Mutex::new(list(folder).map_err(failed)?));
        let run = u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
        let mut segments = Self { folder: folder.to_owned(), limits, clock, run, kept, file: None };
        // So that a folder that cannot be written is known now.
        segments.begin().map_err(failed)?;
        segments.prune();
        Ok(segments)
    }

    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader { folder: self.folder.clone(), run: self.run, kept: Arc::clone(&self.kept) }
    }

    /// Begins a file.
    fn begin(&mut self) -> io::Result<()> {
        let number = self.kept.lock().back().map_or(1, |last| last.number + 1);
        let segment = Segment { number, begun: self.clock.now().as_second(), size: 0 };
        let file =
            OpenOptions::new().append(true).create_new(true).mode(0o600).open(segment.path(&self.folder))?;
        self.file = Some(file);
        self.kept.lock().push_back(segment);
        Ok(())
    }

    fn largest(&self) -> u64 {
        (self.limits.size / FILES).max(1)
    }

    /// Removes files beyond the size or age limit. The age of a file is that of its last line, which is the start of the next
    /// file.
    fn prune(&mut self) {
        let oldest = self
            .clock
            .now()
            .as_second()
            .saturating_sub(self.limits.age.as_secs().try_into().unwrap_or(i64::MAX));
        let mut kept = self.kept.lock();
        while kept.len() > 1
            && (kept.iter().map(|segment| segment.size).sum::<u64>() > self.limits.size
                || kept[1].begun < oldest)
        {
            if let Some(segment) = kept.pop_front()
                && let Err(error) = std::fs::remove_file(segment.path(&self.folder))
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "a file of the journal cannot be removed");
            }
        }
    }
}

/// Where blocks are written.
pub(crate) trait Append: Send + 'static {
    /// Writes a block of lines.
    fn append(&mut self, lines: &[u8]) -> io::Result<()>;

    /// The next block goes to another file: what follows a torn block would not be read.
    fn leave_file(&mut self);
}

impl Append for Segments {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(lines)?;
        let packed = packed.finish()?;
        let size = packed.len() as u64;
        let is_full =
            self.kept.lock().back().is_some_and(|last| last.size > 0 && last.size + size > self.largest());
        if is_full || self.file.is_none() {
            self.begin()?;
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(&packed)
        {
            self.leave_file();
            return Err(error);
        }
        if let Some(last) = self.kept.lock().back_mut() {
            last.size += size;
        }
        self.prune();
        Ok(())
    }

    fn leave_file(&mut self) {
        self.file = None;
    }
}

fn list(folder: &Path) -> io::Result<VecDeque<Segment>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let size = entry.metadata()?.len();
        found.extend(entry.file_name().to_str().and_then(|name| Segment::parse(name, size)));
    }
    found.sort_by_key(|segment| segment.number);
    Ok(found.into())
}

/// Reads a journal, also while it is written.
#[derive(Debug)]
pub(crate) struct Reader {
    folder: PathBuf,
    run: u64,
    kept: Arc<Mutex<VecDeque<Segment>>>,
}

impl Reader {
    /// Whether earlier files were removed.
    pub(crate) fn has_dropped(&self) -> bool {
        self.kept.lock().front().is_some_and(|first| first.number > 1)
    }

    /// At most the `limit` latest decisions that are wanted, oldest first. Of this run only those before `first`.
    pub(crate) fn find(&self, limit: usize, first: u64, wanted: &dyn Fn(&Decision) -> bool) -> Vec<Decision> {
        let (mut found, mut read) = (Vec::new(), 0);
        let segments: Vec<Segment> = self.kept.lock().iter().rev().cloned().collect();
        for segment in segments {
            if found.len() >= limit || read > SEARCHED {
                break;
            }
            read += segment.size;
            for line in lines_of(&segment.path(&self.folder)).into_iter().rev() {
                if line.run == self.run && line.id >= first {
                    continue;
                }
                found.extend(line.decision().filter(|decision| wanted(decision)));
                if found.len() >= limit {
                    break;
                }
            }
        }
        found.reverse();
        found
    }
}

/// All lines in a folder with a journal, oldest first.
pub fn read(folder: &Path) -> Result<Vec<Line>, OpenError> {
    let listed = list(folder).map_err(|source| OpenError { folder: folder.to_owned(), source })?;
    Ok(listed.iter().flat_map(|segment| lines_of(&segment.path(folder))).collect())
}

/// The lines of a file up to its end, or up to where it is torn.
fn lines_of(file: &Path) -> Vec<Line> {
    std::fs::read(file).map_or_else(|_| Vec::new(), |packed| lines_in(&packed))
}

/// The same of what is in a file.
pub(crate) fn lines_in(packed: &[u8]) -> Vec<Line> {
    let (mut rest, mut found) = (packed, Vec::new());
    while !rest.is_empty() {
        let mut block = Vec::new();
        let unpacked = GzDecoder::new(&mut rest).take(LARGEST_BLOCK).read_to_end(&mut block);
        if unpacked.is_err() {
            break;
        }
        let lines = block.split(|byte| *byte == b'\n');
        found.extend(lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_api::Timestamp;

    fn line(id: u64) -> Line {
        Line {
            run: 1,
            id,
            time: "2026-03-01T12:00:00.000000Z".to_owned(),
            controller: "a".into(),
            owner: "".into(),
            action: "create".into(),
            kind: "Pod".into(),
            namespace: "ns".into(),
            name: format!("pod-{id}").into(),
            subresource: "".into(),
            why: "because".into(),
            outcome: "done".into(),
            detail: String::new(),
            took: 1,
        }
    }

    fn block(ids: std::ops::Range<u64>) -> Vec<u8> {
        ids.flat_map(|id| (serde_json::to_string(&line(id)).unwrap() + "\n").into_bytes()).collect()
    }

    fn clock(second: i64) -> Clock {
        Clock::stopped_at(Timestamp::from_second(1_772_366_400 + second).unwrap())
    }

    fn ids(folder: &Path) -> Vec<u64> {
        read(folder).unwrap().iter().map(|line| line.id).collect()
    }

    const LARGE: Limits = Limits { size: 1 << 20, age: Duration::from_secs(3600) };

    #[test]
    fn a_torn_tail_costs_its_block_and_the_next_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut segments = Segments::open(folder.path(), LARGE, clock(0)).unwrap();
        segments.append(&block(0..3)).unwrap();
        segments.append(&block(3..6)).unwrap();
        let file = segments.kept.lock()[0].path(folder.path());
        drop(segments);
        let whole = std::fs::read(&file).unwrap();
        // Torn anywhere: whatever is complete is read, and nothing else.
        let mut seen = std::collections::BTreeSet::new();
        for length in 0..=whole.len() {
            std::fs::write(&file, &whole[..length]).unwrap();
            let found = ids(folder.path());
            assert!([vec![], vec![0, 1, 2], (0..6).collect()].contains(&found), "{length}: {found:?}");
            seen.insert(found.len());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 3, 6]);
        std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
        let mut segments = Segments::open(folder.path(), LARGE, clock(10)).unwrap();
        segments.append(&block(6..8)).unwrap();
        assert_eq!(ids(folder.path()), [0, 1, 2, 6, 7]);
        // Bytes that are no journal are no lines, and no panic.
        std::fs::write(&file, vec![0xAB; 500]).unwrap();
        assert_eq!(ids(folder.path()), [6, 7]);
    }

    #[test]
    fn size_and_age_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { size: 16 << 10, ..LARGE };
        let mut segments = Segments::open(folder.path(), limits, clock(0)).unwrap();
        for n in 0..2000 {
            segments.append(&block(n..n + 1)).unwrap();
            let size: u64 = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(size <= limits.size, "{size} bytes after {n} blocks");
        }
        let found = ids(folder.path());
        assert_eq!(found.last(), Some(&1999));
        assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]), "the oldest go first");
        assert!(segments.reader().has_dropped());
        drop(segments);
        let segments = Segments::open(folder.path(), limits, clock(3600)).unwrap();
        assert!(!ids(folder.path()).is_empty(), "they may just be an hour old");
        drop(segments);
        let segments = Segments::open(folder.path(), limits, clock(7201)).unwrap();
        assert!(ids(folder.path()).is_empty(), "they are older than that");
        assert!(segments.reader().has_dropped());
    }

    #[test]
    fn a_search_leaves_out_what_is_still_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let mut segments = Segments::open(folder.path(), LARGE, clock(0)).unwrap();
        segments.run = 1;
        segments.append(&block(0..10)).unwrap();
        let found = |limit, first| {
            let found = segments.reader().find(limit, first, &|decision| decision.target.name != "pod-3");
            found.iter().map(|decision| decision.id).collect::<Vec<_>>()
        };
        assert_eq!(found(3, 6), [2, 4, 5]);
        assert!(found(100, 0).is_empty());
        segments.run = 2;
        assert_eq!(
            segments.reader().find(100, 0, &|_| true).len(),
            10,
            "an earlier run counts from zero, too"
        );
    }

    #[test]
    fn what_cannot_be_a_folder_is_named() {
        let error = Segments::open(Path::new("/dev/null/journal"), LARGE, clock(0)).err().unwrap();
        assert_eq!(error.to_string(), "the journal in /dev/null/journal cannot be used");
    }
}
