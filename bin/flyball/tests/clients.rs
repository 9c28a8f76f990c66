//! The libraries in `clients/` for other languages, each by its own tests on this `flyball`. Where a language, its test runner or
//! its modules are missing, the test says so and does nothing.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(name)
}

/// A command in the folder of a library.
fn command(program: &str, arguments: &[&str], language: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder(language)).env("FLYBALL_BIN", env!("CARGO_BIN_EXE_flyball"));
    command
}

/// Whether a command succeeds; otherwise says what is missing.
fn is_there(program: &str, arguments: &[&str], language: &str, missing: &str) -> bool {
    let works = command(program, arguments, language).output().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("SKIPPED: {missing}");
    }
    works
}

fn passes(output: &Output, sign: &str) -> anyhow::Result<()> {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && text.contains(sign), "{text}");
    Ok(())
}

#[test]
fn the_python_package_passes_its_tests() -> anyhow::Result<()> {
    if !is_there("python3", &["-c", "import pytest"], "python", "there is no Python with pytest") {
        return Ok(());
    }
    let arguments = ["-B", "-m", "pytest", "-p", "no:cacheprovider"];
    let output = command("python3", &arguments, "python").output().context("run pytest")?;
    passes(&output, "4 passed")
}

#[test]
fn the_go_package_passes_its_tests() -> anyhow::Result<()> {
    if !is_there("go", &["version"], "go", "there is no Go")
        || !is_there("go", &["mod", "download"], "go", "the modules of clients/go cannot be fetched")
    {
        return Ok(());
    }
    let output = command("go", &["test", "-v", "-count=1", "./..."], "go").output().context("run go test")?;
    passes(&output, "--- PASS: TestACronJobFiresWhenTheClockIsMoved")
}

#[test]
fn the_javascript_package_passes_its_tests() -> anyhow::Result<()> {
    const HAS_RUNNER: &str = "process.exit(Number(process.versions.node.split('.')[0]) >= 18 ? 0 : 1)";
    if !is_there("node", &["-e", HAS_RUNNER], "js", "there is no Node 18 or later") {
        return Ok(());
    }
    let output = command("node", &["--test", "--test-reporter=tap"], "js").output().context("run node")?;
    passes(&output, "# pass 4")
}
