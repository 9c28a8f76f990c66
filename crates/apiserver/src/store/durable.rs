//! Keeps the store's objects in an embedded database. One thread commits all pending writes as one transaction, so that many
//! requests share one flush; the response to a request is sent after its commit.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use bytes::Bytes;
use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::watch;

use super::snapshot::Snapshot;
use super::{Entry, Key, ShelfId};

/// `group/plural/namespace/name` → JSON.
const OBJECTS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("objects");
/// `version` → the last version committed; `format` → how the objects are kept.
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
/// The format of the database; a database with a higher number is refused.
const FORMAT: u64 = 1;

const FILE: &str = "objects.redb";
/// The file with the id of the process that has the database open.
const OWNER: &str = "owner";

/// Watchers may have seen versions that were not committed when the process crashed. They must not be used again, so a new process
/// skips this many.
pub(super) const VERSION_GAP: u64 = 100_000;

/// Why the database cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be created or read.
    #[error("cannot use the data directory {path}")]
    Directory { path: String, source: Arc<std::io::Error> },
    /// Another process has it open.
    #[error("the data directory {path} is in use by another process{}", pid.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    InUse {
        path: String,
        /// The process, if known.
        pid: Option<u32>,
    },
    /// A later version of this program has written it.
    #[error(
        "{path} was written by a newer version: it has format {found}, and this version knows {FORMAT} at most"
    )]
    Newer { path: String, found: u64 },
    /// The stored data is damaged.
    #[error("{path} is damaged ({why}); restore it from a copy, or remove it to start with an empty cluster")]
    Damaged { path: String, why: String },
    #[error("database error: {0}")]
    Database(Arc<redb::Error>),
    /// The writing thread has stopped; the reason is in the log.
    #[error("the database stopped accepting writes")]
    Stopped,
}

impl<E: Into<redb::Error>> From<E> for OpenError {
    fn from(error: E) -> Self {
        OpenError::Database(Arc::new(error.into()))
    }
}

/// What is still to be committed.
enum Record {
    /// One object; `None` if it is gone.
    Object { version: u64, key: String, json: Option<Bytes> },
    /// Everything, in one transaction.
    All { version: u64, objects: Vec<(String, Bytes)> },
}

impl Record {
    fn version(&self) -> u64 {
        match self {
            Record::Object { version, .. } | Record::All { version, .. } => *version,
        }
    }
}

/// The writing half of an open database.
pub struct Durable {
    /// Until it is closed.
    queue: Mutex<Option<mpsc::SyncSender<Record>>>,
    committed: watch::Receiver<u64>,
}

impl Durable {
    pub(super) fn open(directory: &Path) -> Result<(Self, Snapshot), OpenError> {
        let place = Place(directory.to_owned());
        std::fs::create_dir_all(directory).map_err(|error| place.unusable(error))?;
        // The library panics on a damaged file.
        let opened = std::panic::catch_unwind(AssertUnwindSafe(|| {
            place.make_private()?;
            let database = Database::create(place.file()).map_err(OpenError::from)?;
            let saved = load(&database, &place)?;
            Ok((database, saved))
        }));
        let (database, saved) = match opened {
            Ok(opened) => opened.map_err(|error| place.explain(error))?,
            Err(_) => return Err(place.damaged("its pages contradict each other")),
        };
        place.claim();
        let (queue, records) = mpsc::sync_channel(65_536);
        let (progress, committed) = watch::channel(saved.version);
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                write_all(&database, &records, &progress);
                // In this order: `close` waits for the second.
                drop(database);
                drop(progress);
            })
            .map_err(|error| place.unusable(error))?;
        Ok((Self { queue: Mutex::new(Some(queue)), committed }, saved))
    }

    /// Queues one write, in order of versions. Waits while the queue is full, which bounds memory.
    pub(super) fn record(&self, version: u64, shelf: &ShelfId, key: &Key, json: Option<Bytes>) {
        self.queue(Record::Object { version, key: path(shelf, key), json });
    }

    /// Queues the replacement of everything.
    pub(super) fn replace<'a>(&self, version: u64, all: impl Iterator<Item = (&'a ShelfId, &'a Entry)>) {
        let objects = all.map(|(shelf, entry)| (path(shelf, &entry.key), entry.json())).collect();
        self.queue(Record::All { version, objects });
    }

    fn queue(&self, record: Record) {
        if let Some(queue) = &*self.queue.lock() {
            // Fails if the writer has stopped; every request notices that when it waits for `reached`.
            let _ = queue.send(record);
        }
    }

    pub(super) async fn reached(&self, version: u64) -> Result<(), OpenError> {
        let mut committed = self.committed.clone();
        committed.wait_for(|done| *done >= version).await.map(|_| ()).map_err(|_| OpenError::Stopped)
    }

    /// Commits what is queued and closes the file. Later writes are refused.
    pub(super) async fn close(&self) {
        self.queue.lock().take();
        let mut committed = self.committed.clone();
        while committed.changed().await.is_ok() {}
    }
}

/// The key of an object in the database: `group/plural/namespace/name`.
pub(super) fn path(shelf: &ShelfId, key: &Key) -> String {
    format!("{}/{}/{}/{}", shelf.group, shelf.plural, key.namespace, key.name)
}

/// What a [`path`] was made of.
pub(super) fn parts(path: &str) -> Option<(ShelfId, Key)> {
    let parts: Vec<&str> = path.splitn(4, '/').collect();
    let [group, plural, namespace, name] = parts[..] else { return None };
    Some((ShelfId::new(group, plural), Key::new(namespace, name)))
}

/// A database that no store can open while this lives.
pub struct Reserved {
    _lock: Option<std::fs::File>,
}

impl Reserved {
    /// Fails if a store has it open. A directory without a database is free.
    pub fn take(directory: &Path) -> Result<Self, OpenError> {
        let place = Place(directory.to_owned());
        let file = match std::fs::File::open(place.file()) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self { _lock: None }),
            Err(error) => return Err(place.unusable(error)),
        };
        // The lock that the database takes.
        match file.try_lock() {
            Ok(()) => Ok(Self { _lock: Some(file) }),
            Err(std::fs::TryLockError::WouldBlock) => Err(place.in_use()),
            Err(std::fs::TryLockError::Error(error)) => Err(place.unusable(error)),
        }
    }
}

/// The path of a database, for errors.
struct Place(PathBuf);

impl Place {
    fn file(&self) -> PathBuf {
        self.0.join(FILE)
    }

    /// Makes the file readable for its owner only: it holds Secrets.
    fn make_private(&self) -> Result<(), OpenError> {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let private = || {
            let mut options = std::fs::OpenOptions::new();
            let file = options.append(true).create(true).mode(0o600).open(self.file())?;
            file.set_permissions(std::fs::Permissions::from_mode(0o600))
        };
        private().map_err(|error| self.unusable(error))
    }

    /// Writes the process id; a failure is ignored, since it is only used in an error message.
    fn claim(&self) {
        let _ = std::fs::write(self.0.join(OWNER), std::process::id().to_string());
    }

    fn in_use(&self) -> OpenError {
        let pid = std::fs::read_to_string(self.0.join(OWNER)).ok().and_then(|text| text.trim().parse().ok());
        OpenError::InUse { path: self.0.display().to_string(), pid }
    }

    fn unusable(&self, error: std::io::Error) -> OpenError {
        OpenError::Directory { path: self.0.display().to_string(), source: Arc::new(error) }
    }

    fn damaged(&self, why: &str) -> OpenError {
        OpenError::Damaged { path: self.file().display().to_string(), why: why.to_owned() }
    }

    fn explain(&self, error: OpenError) -> OpenError {
        let OpenError::Database(inner) = &error else { return error };
        match &**inner {
            redb::Error::DatabaseAlreadyOpen => self.in_use(),
            redb::Error::Corrupted(why) => self.damaged(why),
            redb::Error::UpgradeRequired(format) => {
                self.damaged(&format!("it is in the old format {format}"))
            }
            // The file is not a database, or truncated.
            redb::Error::Io(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof
                ) =>
            {
                self.damaged(&error.to_string())
            }
            _ => error,
        }
    }
}

fn load(database: &Database, place: &Place) -> Result<Snapshot, OpenError> {
    let setup = database.begin_write()?;
    {
        setup.open_table(OBJECTS)?;
        let mut meta = setup.open_table(META)?;
        let found = meta.get("format")?.map(|found| found.value());
        match found {
            Some(found) if found > FORMAT => {
                return Err(OpenError::Newer { path: place.file().display().to_string(), found });
            }
            Some(_) => {}
            None => {
                meta.insert("format", FORMAT)?;
            }
        }
    }
    setup.commit()?;

    let read = database.begin_read()?;
    let last = read.open_table(META)?.get("version")?.map(|v| v.value());
    let mut objects = Vec::new();
    for row in read.open_table(OBJECTS)?.iter()? {
        let (path, json) = row?;
        let path = path.value();
        let damaged = || place.damaged(&format!("what it holds under {path:?} is not an object"));
        let (shelf, key) = parts(path).ok_or_else(damaged)?;
        let object = serde_json::from_slice(json.value()).map_err(|_| damaged())?;
        objects.push((shelf, key, object));
    }
    Ok(Snapshot { version: last.map_or(1, |v| v + VERSION_GAP), objects })
}

fn write_all(database: &Database, records: &mpsc::Receiver<Record>, progress: &watch::Sender<u64>) {
    while let Ok(first) = records.recv() {
        let batch: Vec<Record> = std::iter::once(first).chain(records.try_iter().take(4096)).collect();
        match write_batch(database, &batch) {
            Ok(version) => {
                progress.send_replace(version);
            }
            Err(error) => {
                tracing::error!(error = %error, "the database refused a write; no further write is accepted");
                return;
            }
        }
    }
}

fn write_batch(database: &Database, batch: &[Record]) -> Result<u64, OpenError> {
    let mut last = 0;
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for record in batch {
            match record {
                Record::Object { key, json: Some(json), .. } => {
                    objects.insert(key.as_str(), json.as_ref())?;
                }
                Record::Object { key, json: None, .. } => {
                    objects.remove(key.as_str())?;
                }
                Record::All { objects: all, .. } => {
                    objects.retain(|_, _| false)?;
                    for (key, json) in all {
                        objects.insert(key.as_str(), json.as_ref())?;
                    }
                }
            }
            last = last.max(record.version());
        }
        transaction.open_table(META)?.insert("version", last)?;
    }
    transaction.commit()?;
    Ok(last)
}
