//! `flyball up --detach`: the command starts another process, which is the cluster, and returns when that one is ready or has
//! failed. They talk over a socket that is the stdin of the new process; its output goes to the log.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::Place;
use super::claim::{Claim, Wanted};
use crate::args::Up;
use crate::lines;

/// A log that has reached this size begins anew; the one before is kept.
const FULL: u64 = 8 << 20;
const CHECKED_EVERY: Duration = Duration::from_secs(10);
/// How much of its log is shown if the process has ended without a word.
const TAIL: usize = 2000;

/// How the start has ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Report {
    /// The text for the user.
    Ready(String),
    Failed(String),
}

/// Starts the cluster in the background.
pub(crate) fn run(args: &Up) -> anyhow::Result<()> {
    let claim = Claim::take(args.wanted())?;
    let (name, place, is_known) = (claim.name.clone(), claim.place.clone(), claim.earlier.is_some());
    // The new process takes it.
    drop(claim);
    let log = create_log(&place)?;
    let (ours, theirs) = UnixStream::pair().context("make a socket")?;
    let mut command = Command::new(std::env::current_exe().context("find this program's file")?);
    command.arg("up").arg("--detached");
    if args.name.is_none() {
        command.args(["--name", name.as_str()]);
    }
    command.args(without_detach(std::env::args_os().skip(2)));
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stdout(log.try_clone().context("share the log")?).stderr(log);
    let mut child = command.spawn().context("start the cluster's process")?;
    // Its copy of the other end of the socket would keep us waiting.
    drop(command);
    let mut line = String::new();
    let _ = BufReader::new(ours).read_line(&mut line);
    let failed = match serde_json::from_str::<Report>(&line) {
        Ok(Report::Ready(text)) => {
            lines::print(&text);
            return Ok(());
        }
        Ok(Report::Failed(error)) => {
            let _ = child.wait();
            error
        }
        Err(_) => silent(child.wait().context("wait for the cluster's process")?, &place.log()),
    };
    // If it did not come to claim the name.
    if !is_known {
        drop(Claim::take(Wanted::Exactly(&name)));
    }
    bail!("{failed}")
}

/// About a process that has ended without a word.
fn silent(status: ExitStatus, log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let from = text.len().saturating_sub(TAIL);
    let tail = text.get(text.ceil_char_boundary(from)..).unwrap_or_default();
    format!("the cluster's process ended while it started ({status}); its log ends so:\n{}", tail.trim_end())
}

fn create_log(place: &Place) -> anyhow::Result<File> {
    let path = place.log();
    let create = || {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place.folder())?;
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        log.set_len(0).map(|()| log)
    };
    create().with_context(|| format!("create {}", path.display()))
}

/// The arguments of `up`, without the one that has brought us here.
fn without_detach(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut for_us = true;
    let keep = |argument: &OsString| {
        for_us = for_us && argument != "--";
        !(for_us && argument == "--detach")
    };
    arguments.filter(keep).collect()
}

/// The process that waits for this one to be ready.
pub(crate) struct Parent(UnixStream);

impl Parent {
    /// Leaves the terminal and its signals.
    pub(crate) fn leave() -> anyhow::Result<Self> {
        // Fails if we lead a session already, which is as good.
        let _ = rustix::process::setsid();
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("use stdin")?;
        Ok(Self(UnixStream::from(stdin)))
    }

    /// Fails if the command that started this process has exited: then the user does not know about this cluster.
    pub(crate) fn ready(&mut self, text: &str) -> anyhow::Result<()> {
        self.report(&Report::Ready(text.to_owned())).context("the command that started this one has ended")
    }

    pub(crate) fn failed(&mut self, error: &anyhow::Error) {
        let _ = self.report(&Report::Failed(format!("{error:#}")));
    }

    fn report(&mut self, report: &Report) -> anyhow::Result<()> {
        let line = serde_json::to_string(report)?;
        writeln!(self.0, "{line}")?;
        Ok(self.0.shutdown(Shutdown::Both)?)
    }
}

/// The log of this process, which is its stdout.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn of(place: &Place) -> Self {
        Self(place.log())
    }

    /// Limits the size of the log file, which is polled.
    pub(crate) async fn keep_bounded(self) {
        let log = std::sync::Arc::new(self);
        loop {
            tokio::time::sleep(CHECKED_EVERY).await;
            let log = std::sync::Arc::clone(&log);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || log.bound()).await {
                tracing::warn!(%error, "cannot rotate the log");
            }
        }
    }

    /// Begins anew if it is full. What is written while it is copied may be lost.
    fn bound(&self) -> std::io::Result<()> {
        if std::fs::metadata(&self.0)?.len() < FULL {
            return Ok(());
        }
        std::fs::copy(&self.0, self.0.with_extension("1"))?;
        // Stdout appends, so it goes on at the new end.
        OpenOptions::new().write(true).open(&self.0)?.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_flag_is_left_out() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let left = without_detach(words("--name a --detach --nodes 2 -- --detach").into_iter());
        assert_eq!(left, words("--name a --nodes 2 -- --detach"));
    }

    #[test]
    fn a_full_log_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log(folder.path().join("log"));
        std::fs::write(&log.0, "small").unwrap();
        log.bound().unwrap();
        assert_eq!(std::fs::read_to_string(&log.0).unwrap(), "small");
        File::create(&log.0).unwrap().set_len(FULL).unwrap();
        log.bound().unwrap();
        assert_eq!(std::fs::metadata(&log.0).unwrap().len(), 0);
        assert_eq!(std::fs::metadata(folder.path().join("log.1")).unwrap().len(), FULL);
    }
}
