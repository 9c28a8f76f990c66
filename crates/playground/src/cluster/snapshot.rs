//! A whole cluster as a file: its keys and certificates, and all objects. The file is compressed lines of JSON; what is in it is as
//! secret as the Secrets of the cluster.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use flyball_api::Timestamp;
use flyball_apiserver::{ApiServer, store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::identity::Keys;

const FORMAT: u64 = 1;
/// No first line is longer.
const LONGEST_HEAD: u64 = 1 << 20;

/// What a file holds.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When it was written.
    pub time: Timestamp,
    /// New ones are made if there are none.
    pub(super) keys: Option<Keys>,
    pub(super) objects: Arc<store::Snapshot>,
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("this is not a file of `flyball snapshot save`")]
    Foreign,
    #[error(
        "it was written by a newer version: it has format {found}, and this version knows {FORMAT} at most"
    )]
    Newer { found: u64 },
    #[error("it is damaged")]
    Damaged(#[from] store::SnapshotError),
    #[error("it cannot be read")]
    Read(#[from] io::Error),
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(rename = "flyballSnapshot")]
    format: u64,
    time: Timestamp,
    keys: Keys,
}

/// Writes snapshots of a running cluster.
#[derive(Clone)]
pub struct Saver {
    server: ApiServer,
    keys: Keys,
}

impl Saver {
    pub(super) fn new(server: ApiServer, keys: Keys) -> Self {
        Self { server, keys }
    }

    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The cluster as it is now, in memory.
    pub fn copy(&self) -> Result<Snapshot, SnapshotError> {
        let mut bytes = Vec::new();
        self.save(&mut bytes)?;
        Snapshot::read(&*bytes)
    }

    /// Writes everything as it is now. The cluster goes on meanwhile; the snapshot is of one moment.
    pub fn save(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(GzEncoder::new(out, Compression::fast()));
        let head = Head { format: FORMAT, time: self.server.inner().now(), keys: self.keys.clone() };
        serde_json::to_writer(&mut out, &head)?;
        out.write_all(b"\n")?;
        self.server.store().save(&mut out)?;
        out.into_inner()?.finish()?.flush()
    }
}

impl Snapshot {
    pub fn read(file: impl Read) -> Result<Self, SnapshotError> {
        let mut lines = BufReader::new(GzDecoder::new(file));
        let mut first = String::new();
        match lines.by_ref().take(LONGEST_HEAD).read_line(&mut first) {
            Ok(_) => {}
            // Neither compressed nor text.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                return Err(SnapshotError::Foreign);
            }
            Err(error) => return Err(error.into()),
        }
        #[derive(Deserialize)]
        struct Format {
            #[serde(rename = "flyballSnapshot")]
            format: u64,
        }
        let Format { format } = serde_json::from_str(&first).map_err(|_| SnapshotError::Foreign)?;
        if format > FORMAT {
            return Err(SnapshotError::Newer { found: format });
        }
        let Head { time, keys, .. } = serde_json::from_str(&first).map_err(|_| SnapshotError::Foreign)?;
        Ok(Self { time, keys: Some(keys), objects: Arc::new(store::Snapshot::read(&mut lines)?) })
    }

    /// Objects from elsewhere, with their keys: `group/plural/namespace/name`. They keep their uids.
    pub fn of(
        time: Timestamp,
        objects: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, store::SnapshotError> {
        Ok(Self { time, keys: None, objects: Arc::new(store::Snapshot::of(objects)?) })
    }

    /// Has the cluster begin with a version above `version`, which clients of another one have seen.
    pub fn begin_after(&mut self, version: u64) {
        Arc::make_mut(&mut self.objects).raise(version);
    }
}
