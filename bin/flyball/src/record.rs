//! `flyball record`: a cluster to a file, for `flyball replay`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use flyball_client::Client;
use flyball_replay::record::record;
use flyball_replay::redact::Redactor;
use flyball_runtime::Clock;

use crate::args;
use crate::ask;
use crate::lines::say;
use crate::signals::Stop;

/// How many resources that could not be read are named.
const NAMED: usize = 10;

pub(crate) async fn run(args: &args::Record) -> anyhow::Result<()> {
    let client = client(args).await?;
    // Before the file is made: nothing is left behind if there is no cluster.
    client.get_raw("/version").await.context("the cluster cannot be reached")?;
    let redactor = Redactor::new()?;
    let stop = Stop::listen()?;
    let file = create(&args.file)?;
    say!("Recording to {}. Ctrl-C ends it{}.", args.file.display(), limit(args));
    let recorded = record(&client, &file, &redactor, Clock::system(), ends(args, stop)).await;
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            // What was written before a disk was full can be read.
            if file.metadata().is_ok_and(|written| written.len() == 0) {
                let _ = std::fs::remove_file(&args.file);
            }
            return Err(error).with_context(|| format!("record to {}", args.file.display()));
        }
    };
    file.sync_all().with_context(|| format!("write {}", args.file.display()))?;
    for missing in recorded.missing.iter().take(NAMED) {
        say!("not recorded: {missing}");
    }
    if let Some(more) = recorded.missing.len().checked_sub(NAMED).filter(|more| *more > 0) {
        say!("not recorded: {more} more");
    }
    let size = file.metadata().map_or(0, |written| written.len()).div_ceil(1024);
    let (objects, changes) = (recorded.objects, recorded.changes);
    say!("{objects} objects and {changes} changes are in {} ({size} KiB).", args.file.display());
    say!("`flyball replay {}` plays them.", args.file.display());
    Ok(())
}

async fn client(args: &args::Record) -> anyhow::Result<Client> {
    match (&args.target.kubeconfig, &args.context) {
        (Some(path), Some(context)) if path.exists() => ask::connected(path, Some(context)).await,
        _ => ask::client(&args.target).await,
    }
}

fn create(path: &Path) -> anyhow::Result<File> {
    // Names of objects may be confidential: only the owner can read the file.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} exists already; choose another name, or remove it first", path.display())
        }
        created => created.with_context(|| format!("create {}", path.display())),
    }
}

fn limit(args: &args::Record) -> String {
    args.time.map_or_else(String::new, |time| format!(", or {} seconds", time.as_secs()))
}

/// A signal, or the end of the given time.
async fn ends(args: &args::Record, mut stop: Stop) {
    let over = async {
        match args.time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => {}
        () = stop.requested() => {}
    }
}
