//! Runs upstream's end-to-end tests against a rig.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

use super::artefacts::Artefacts;
use super::report::{self, Run};
use super::rig::Rig;

/// How a run is limited.
pub(crate) struct Limits {
    pub(crate) processes: usize,
    pub(crate) minutes: u64,
}

/// Starts ginkgo; the output of the tests is written to `e2e.log`.
pub(crate) fn start(
    artefacts: &Artefacts,
    rig: &Rig,
    tests: &[String],
    limits: &Limits,
    report: &Path,
) -> anyhow::Result<Child> {
    let dir = rig.cluster.dir();
    let log = std::fs::File::create(dir.join("e2e.log")).context("create e2e.log")?;
    let kubeconfig = dir.join("admin.kubeconfig");
    Command::new(artefacts.program("ginkgo"))
        .current_dir(dir)
        .arg(format!("--procs={}", limits.processes))
        .arg(format!("--timeout={}m", limits.minutes))
        .args(["--no-color", "--silence-skips", "--keep-going"])
        .arg(format!("--json-report={}", file_name(report)))
        .arg(format!("--output-dir={}", report.parent().unwrap_or(dir).display()))
        .args(tests)
        .arg(artefacts.program("e2e.test"))
        .arg("--")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--kubectl-path={}", rig.cluster.assets().binary("kubectl").display()))
        .args(["--provider=skeleton", "--num-nodes=2", "--disable-log-dump", "--dump-logs-on-failure=false"])
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("share e2e.log")?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("start ginkgo")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs the tests to their end. A test that fails is a result; a rig that breaks is an error.
pub(crate) async fn run(
    artefacts: &Artefacts,
    rig: &mut Rig,
    tests: &[String],
    limits: &Limits,
    report: &Path,
) -> anyhow::Result<Run> {
    let mut ginkgo = start(artefacts, rig, tests, limits, report)?;
    let log = rig.cluster.dir().join("e2e.log");
    println!("  the tests' output is in {}", log.display());
    let status = loop {
        tokio::select! {
            status = ginkgo.wait() => break status.context("wait for ginkgo")?,
            () = tokio::time::sleep(Duration::from_secs(2)) => {
                if let Some(reason) = rig.ended() {
                    bail!(reason);
                }
            }
        }
    };
    if !report.is_file() {
        bail!("ginkgo ended with {status} and wrote no report; see {}", log.display());
    }
    report::read(report)
}

/// The path of the report for one controller manager.
pub(crate) fn report_path(output: &Path, who: &str) -> PathBuf {
    output.join(format!("{who}.json"))
}
