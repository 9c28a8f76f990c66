//! A home directory of its own, in which several clusters have names.

#![allow(dead_code)] // each test program needs another part of it

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("HOME", self.0.path())
            .env_remove("KUBECONFIG")
            .env_remove("FLYBALL_HOME");
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command(env!("CARGO_BIN_EXE_flyball"), arguments).output()?)
    }

    /// Runs a command that must succeed; its output.
    pub(crate) fn flyball(&self, arguments: &[&str]) -> anyhow::Result<String> {
        text(&self.run(arguments)?).with_context(|| format!("{arguments:?}"))
    }

    /// Runs a command that must fail with code 1; its complaint.
    pub(crate) fn fails(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1), "{arguments:?}: {}: {said}", output.status);
        ensure!(!said.contains("panicked"), "{arguments:?}: {said}");
        Ok(said)
    }

    pub(crate) fn list(&self) -> anyhow::Result<Vec<Value>> {
        Ok(serde_json::from_str(&self.flyball(&["list", "-o", "json"])?)?)
    }

    /// Sends a signal to the process of a cluster.
    pub(crate) fn signal(&self, name: &str, signal: rustix::process::Signal) -> anyhow::Result<()> {
        let listed = self.list()?;
        let status = listed.iter().find(|status| status["name"] == name).context("it is not listed")?;
        let pid = status["pid"].as_i64().context("no pid")?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid)?).context("no pid")?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// Ends a cluster as `kill -9` does, and waits until its process is gone: only then is its lock free.
    pub(crate) fn kill(&self, name: &str) -> anyhow::Result<()> {
        let lock = std::fs::File::open(self.path(".flyball/clusters").join(name).join("lock"))?;
        self.signal(name, rustix::process::Signal::KILL)?;
        Ok(lock.lock_shared()?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let clusters = self.path(".flyball/clusters");
        !clusters.exists() || std::fs::read_dir(clusters).is_ok_and(|mut found| found.next().is_none())
    }

    pub(crate) fn kubectl(&self, binary: &Path, line: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        text(&self.command(binary, &words).output()?).with_context(|| format!("kubectl {line}"))
    }
}

impl Drop for Home {
    /// Ends whatever a failed test has left.
    fn drop(&mut self) {
        let _ = self.run(&["down", "--all"]);
    }
}

fn text(output: &Output) -> anyhow::Result<String> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(said)
}
