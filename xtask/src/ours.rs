//! Our own controller manager, as the other tasks need it: built, and asked what it can do.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Builds the binary in release mode and returns its path.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(crate::root())
        .args([
            "build",
            "--release",
            "--package",
            "kube-controller-manager",
            "--message-format=json-render-diagnostics",
        ])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("run cargo build")?;
    if !output.status.success() {
        bail!("cargo build --release --package kube-controller-manager failed");
    }
    let mut executables = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| {
        let message: Value = serde_json::from_slice(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executables.next_back().context("cargo build made no executable")
}
