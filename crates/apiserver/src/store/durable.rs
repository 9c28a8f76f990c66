//! Keeps the store's objects in an embedded database. Writes are handed to one thread that commits whatever has
//! gathered as one transaction, so that many requests share one flush; a request is answered after its commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;
use tokio::sync::watch;

use super::{Key, ShelfId};

/// `group/plural/namespace/name` → JSON.
const OBJECTS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("objects");
/// `version` → the last version committed.
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// Versions that may have been seen by watchers but were not yet committed when the process died are never given
/// out again: a new process skips so many.
const VERSION_GAP: u64 = 100_000;

/// Why the database cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be made or read.
    #[error("cannot use the data directory {path}: {reason}")]
    Directory {
        /// Which directory.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The database refuses.
    #[error("cannot use the database in the data directory: {0}")]
    Database(Arc<redb::Error>),
    /// What is stored is not what this program wrote.
    #[error("the database holds a damaged object under {0}")]
    Damaged(String),
    /// The writing thread has stopped; the reason is in the log.
    #[error("the database stopped accepting writes")]
    Stopped,
}

impl<E: Into<redb::Error>> From<E> for OpenError {
    fn from(error: E) -> Self {
        OpenError::Database(Arc::new(error.into()))
    }
}

struct Record {
    version: u64,
    key: String,
    json: Option<Bytes>,
}

/// What a database held when it was opened.
pub(super) struct Saved {
    pub(super) version: u64,
    pub(super) objects: Vec<(ShelfId, Key, Value)>,
}

/// The writing half of an open database.
pub struct Durable {
    queue: mpsc::SyncSender<Record>,
    committed: watch::Receiver<u64>,
}

impl Durable {
    pub(super) fn open(directory: &Path) -> Result<(Self, Saved), OpenError> {
        std::fs::create_dir_all(directory).map_err(|error| OpenError::Directory {
            path: directory.display().to_string(),
            reason: error.to_string(),
        })?;
        let database = Database::create(directory.join("objects.redb"))?;
        let saved = load(&database)?;
        let (queue, records) = mpsc::sync_channel(65_536);
        let (progress, committed) = watch::channel(saved.version);
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_all(&database, &records, &progress))
            .map_err(|error| OpenError::Directory {
                path: directory.display().to_string(),
                reason: error.to_string(),
            })?;
        Ok((Self { queue, committed }, saved))
    }

    /// Hands over one write, in order of versions. Waits while the queue is full, which bounds memory.
    pub(super) fn record(&self, version: u64, shelf: &ShelfId, key: &Key, json: Option<Bytes>) {
        let key = format!("{}/{}/{}/{}", shelf.group, shelf.plural, key.namespace, key.name);
        // A stopped writer shows itself in `reached`, which every request waits for.
        let _ = self.queue.send(Record { version, key, json });
    }

    pub(super) async fn reached(&self, version: u64) -> Result<(), OpenError> {
        let mut committed = self.committed.clone();
        committed.wait_for(|done| *done >= version).await.map(|_| ()).map_err(|_| OpenError::Stopped)
    }
}

fn load(database: &Database) -> Result<Saved, OpenError> {
    let setup = database.begin_write()?;
    setup.open_table(OBJECTS)?;
    setup.open_table(META)?;
    setup.commit()?;

    let read = database.begin_read()?;
    let last = read.open_table(META)?.get("version")?.map(|v| v.value());
    let mut objects = Vec::new();
    for row in read.open_table(OBJECTS)?.iter()? {
        let (path, json) = row?;
        let path = path.value().to_owned();
        let parts: Vec<&str> = path.splitn(4, '/').collect();
        let [group, plural, namespace, name] = parts[..] else { return Err(OpenError::Damaged(path)) };
        let object = serde_json::from_slice(json.value()).map_err(|_| OpenError::Damaged(path.clone()))?;
        objects.push((ShelfId::new(group, plural), Key::new(namespace, name), object));
    }
    Ok(Saved { version: last.map_or(1, |v| v + VERSION_GAP), objects })
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
            match &record.json {
                Some(json) => objects.insert(record.key.as_str(), json.as_ref())?,
                None => objects.remove(record.key.as_str())?,
            };
            last = last.max(record.version);
        }
        transaction.open_table(META)?.insert("version", last)?;
    }
    transaction.commit()?;
    Ok(last)
}
