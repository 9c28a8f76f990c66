//! Compiles static programs for another architecture: Rust with its musl targets, C (jemalloc, ring) with Zig's compiler.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use flyball_sim::cluster::Assets;

use super::{Architecture, Release};

/// From PyPI, because that needs no package manager of a distribution.
const ZIG: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

pub(super) struct Compiler {
    /// A Python environment in the user's cache.
    environment: PathBuf,
}

impl Compiler {
    /// Installs what is missing.
    pub(super) fn provide(architectures: &[Architecture]) -> anyhow::Result<Self> {
        let installed = output(Command::new("rustup").args(["target", "list", "--installed"]))
            .context("rustup knows the targets (https://rustup.rs)")?;
        for target in architectures.iter().map(|architecture| architecture.target()) {
            if !installed.lines().any(|line| line == target) {
                println!("Adding Rust's target {target} …");
                output(Command::new("rustup").args(["target", "add", target]))?;
            }
        }
        let environment = Assets::cache("zig");
        let stamp = environment.join("installed");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == ZIG.join(" ")) {
            return Ok(Self { environment });
        }
        println!("Installing {} into {} …", ZIG.join(" and "), environment.display());
        output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))
            .context("Zig's compiler is installed with Python (packages python3 and python3-venv)")?;
        output(Command::new(environment.join("bin/pip")).args(["install", "--quiet"]).args(ZIG))?;
        std::fs::write(&stamp, ZIG.join(" ")).with_context(|| format!("write {}", stamp.display()))?;
        Ok(Self { environment })
    }

    /// Returns the program's file.
    pub(super) fn build(
        &self,
        program: &str,
        architecture: Architecture,
        profile: &str,
        release: &Release,
    ) -> anyhow::Result<PathBuf> {
        let root = std::fs::canonicalize(crate::root()).context("find the repository")?;
        let target = architecture.target();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            std::iter::once(self.environment.join("bin")).chain(std::env::split_paths(&path)),
        )
        .context("extend PATH")?;
        let prefix = format!("CARGO_PROFILE_{}_", profile.to_uppercase());
        // Messages of panics name source files: without the folders of this machine.
        let remapped = [(root.clone(), "."), (cargo_home()?, "cargo")]
            .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
        let mut command = Command::new(self.environment.join("bin/cargo-zigbuild"));
        command
            .current_dir(&root)
            .args(["zigbuild", "--locked", "--package", program, "--profile", profile, "--target", target])
            .env("PATH", path)
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env("CARGO_ENCODED_RUSTFLAGS", remapped.join("\u{1f}"))
            .env(format!("{prefix}STRIP"), "symbols")
            .env(format!("{prefix}DEBUG"), "false")
            .env("SOURCE_DATE_EPOCH", release.time.as_second().to_string());
        if architecture == Architecture::Arm64 {
            // Some distributions have pages of 64 KiB there, and jemalloc aborts when pages are larger than it was told.
            command.env("JEMALLOC_SYS_WITH_LG_PAGE", "16");
        }
        let status = command.status().context("run cargo-zigbuild")?;
        if !status.success() {
            bail!("cargo zigbuild --package {program} --target {target} ended with {status}");
        }
        let folder = if profile == "dev" { "debug" } else { profile };
        Ok(root.join("target").join(target).join(folder).join(program))
    }
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let set = |var: &str| std::env::var_os(var).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("CARGO_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")
}

pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("run {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} ended with {}: {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
