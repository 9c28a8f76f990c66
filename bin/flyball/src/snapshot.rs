//! `flyball snapshot`: a running cluster to a file, and back. The cluster's own process reads and writes the file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use flyball_playground::cluster::{Saver, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::{self, SnapshotAction};
use crate::lines::say;
use crate::named;
use crate::named::channel::Request;

/// What was written.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    bytes: u64,
}

pub(crate) async fn run(args: &args::Snapshot) -> anyhow::Result<()> {
    match &args.action {
        SnapshotAction::Save { file, cluster } => {
            let (name, mut connection) = named::running(cluster.name.as_ref()).await?;
            let request = Request::Save { file: std::path::absolute(file)? };
            let Written { bytes } = connection.request(&request).await?;
            say!(
                "The cluster {:?} is saved in {} ({} KiB).",
                name.as_str(),
                file.display(),
                bytes.div_ceil(1024)
            );
            say!(
                "`flyball snapshot restore {0}` brings it back; `flyball up --snapshot {0}` starts another one with it.",
                file.display()
            );
        }
        SnapshotAction::Restore { file, cluster } => {
            let (name, mut connection) = named::running(cluster.name.as_ref()).await?;
            let request = Request::Restore { file: std::path::absolute(file)? };
            connection.request::<Value>(&request).await?;
            say!("The cluster {:?} is what it was when {} was written.", name.as_str(), file.display());
            say!(
                "Its keys are those of the snapshot: kubeconfigs that were copied elsewhere must be copied again."
            );
        }
    }
    Ok(())
}

/// Reads a snapshot; nothing has changed if that fails.
pub(crate) fn read(file: &Path) -> anyhow::Result<Snapshot> {
    let opened = File::open(file).with_context(|| format!("open {}", file.display()))?;
    Snapshot::read(opened).with_context(|| format!("the snapshot {} cannot be used", file.display()))
}

/// Writes a snapshot to a new file; if that fails, the file is removed.
pub(crate) fn write(saver: &Saver, file: &Path) -> anyhow::Result<Value> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let created = match created {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} exists already; choose another name, or remove it first", file.display())
        }
        created => created.with_context(|| format!("create {}", file.display()))?,
    };
    let written = saver.save(&created).and_then(|()| created.sync_all()).and_then(|()| created.metadata());
    let written = written.with_context(|| {
        let _ = std::fs::remove_file(file);
        format!("write {}", file.display())
    })?;
    Ok(serde_json::to_value(Written { bytes: written.len() })?)
}
