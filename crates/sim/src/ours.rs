//! The binaries of this checkout, and which controllers ours has.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use flyball_manager::{Component, KUBE_CONTROLLER_MANAGER};
use serde_json::Value;

use crate::cluster::Skip;

/// How a program is built (`[profile]` in Cargo.toml).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As `cargo test` builds.
    Debug,
    /// Optimized a little: quick to build, fast enough for much work.
    Release,
    /// As it is shipped: for measurements.
    Dist,
}

/// Our controller manager: `FLYBALL_KCM`, or built from this checkout.
pub fn binary(profile: Profile) -> anyhow::Result<PathBuf> {
    if let Some(path) = named() {
        return path.canonicalize().with_context(|| format!("FLYBALL_KCM: find {}", path.display()));
    }
    build("kube-controller-manager", profile)
}

/// Builds a program of this checkout.
pub fn build(package: &str, profile: Profile) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["build", "--package", package, "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit());
    match profile {
        Profile::Debug => {}
        Profile::Release => drop(build.arg("--release")),
        Profile::Dist => drop(build.args(["--profile", "dist"])),
    }
    // An outer cargo's variables about our package must not reach the inner cargo: ring depends on them, and would be
    // rebuilt with all its dependents.
    let is_about_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_about_us)) {
        build.env_remove(name);
    }
    let output = build.output().context("run cargo build")?;
    if !output.status.success() {
        bail!("cargo build --package {package} failed");
    }
    let mut executables = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| {
        let message: Value = serde_json::from_slice(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executables.next_back().context("cargo build made no executable")
}

fn named() -> Option<PathBuf> {
    std::env::var_os("FLYBALL_KCM").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Why ours cannot replace upstream with this `--controllers` list, if it cannot. A binary from `FLYBALL_KCM` is assumed to
/// have all controllers.
pub fn lacks<S: AsRef<str>>(controllers: &[S]) -> Option<Skip> {
    lacks_of(&KUBE_CONTROLLER_MANAGER, controllers)
}

/// The same for any of our controller managers.
pub fn lacks_of<S: AsRef<str>>(component: &Component, controllers: &[S]) -> Option<Skip> {
    if self::named().is_some() {
        return None;
    }
    let list: Vec<String> = controllers.iter().map(|name| name.as_ref().to_owned()).collect();
    component.canonical(&list).err().map(|unknown| Skip { reason: unknown.to_string() })
}
