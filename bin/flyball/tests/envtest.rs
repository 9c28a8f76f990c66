//! A Go suite on controller-runtime's envtest runs unchanged on `flyball assets`, with and without controllers. Needs Go and
//! the modules of `tests/envtest`; says so and does nothing where there is no Go.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

#[test]
fn a_suite_of_envtest_passes() -> anyhow::Result<()> {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("SKIPPED: there is no Go");
        return Ok(());
    }
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/envtest");
    let folder = tempfile::tempdir()?;
    let assets = folder.path().join("assets");
    let made = Command::new(env!("CARGO_BIN_EXE_flyball")).arg("assets").arg(&assets).output()?;
    ensure!(made.status.success(), "{made:?}");
    let binary = folder.path().join("suite.test");
    let built =
        Command::new("go").args(["test", "-c", "-o"]).arg(&binary).arg(".").current_dir(&suite).output()?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for controllers in ["none", "*"] {
        let ran = Command::new(&binary)
            .args(["-test.v", "-test.timeout=2m"])
            .env("KUBEBUILDER_ASSETS", &assets)
            .env("FLYBALL_CONTROLLERS", controllers)
            .current_dir(&suite)
            .output()
            .context("run the suite")?;
        let text = String::from_utf8_lossy(&ran.stdout);
        ensure!(ran.status.success() && text.contains("--- PASS: TestEnvironment"), "{controllers}: {text}");
    }
    Ok(())
}
