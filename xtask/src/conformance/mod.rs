//! `cargo xtask conformance`: upstream's end-to-end tests on a real cluster with real kubelets, once with upstream's controller
//! manager and once with ours. Nothing that passes with upstream's may fail with ours.

mod artefacts;
mod command;
mod dns;
mod e2e;
mod images;
mod namespaces;
mod network;
mod node;
mod report;
mod rig;
pub(crate) mod shadow;
mod storage;
mod suites;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use flyball_sim::cluster::{Assets, Skip};
use flyball_sim::ours::{self, Profile};

use artefacts::Artefacts;
use e2e::Limits;
use report::Comparison;
use rig::Rig;
use suites::Selection;

/// `cargo xtask conformance`
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    tests: Selection,
    /// The controller manager to test
    #[arg(long, value_enum, default_value_t = Who::Both)]
    manager: Who,
    /// Tests that run at the same time
    #[arg(long, default_value_t = 2, value_name = "N")]
    procs: usize,
    /// Ends each run after this many minutes; tests that did not run by then are not counted
    #[arg(long, default_value_t = 120, value_name = "N")]
    minutes: u64,
    /// Our controller manager [default: built in release mode]
    #[arg(long, value_name = "PATH")]
    kcm: Option<PathBuf>,
    /// Where logs and reports go; not below /tmp, /run, /var/lib or /var/log, which nodes replace [default: target/conformance]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    inside: Inside,
}

/// Set when the program runs itself again inside the rig's namespaces.
#[derive(clap::Args, Clone)]
pub(crate) struct Inside {
    /// The cgroup of the rig
    #[arg(long, hide = true)]
    cgroup: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Who {
    Upstream,
    Ours,
    Both,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Ours => "ours",
            Self::Both => "both",
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("make a runtime")?;
    if let Some(cgroup) = &options.inside.cgroup {
        namespaces::end_with_parent();
        runtime.block_on(inside(options, cgroup))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(reason) = namespaces::lacks() {
        Skip { reason }.announce("conformance");
        return Ok(ExitCode::SUCCESS);
    }
    // A name that is wrong is refused before anything is built.
    options.tests.for_ginkgo()?;
    let output = output_folder(options.output.as_deref(), "conformance")?;
    let programs = Programs::provide(options.kcm.as_deref())?;
    let managers = match options.manager {
        Who::Both => vec![Who::Upstream, Who::Ours],
        one => vec![one],
    };
    let mut runs = Vec::new();
    for who in managers {
        println!("With {} controller manager:", if who == Who::Ours { "our" } else { "upstream's" });
        let report = e2e::report_path(&output, who.name());
        if report.exists() {
            std::fs::remove_file(&report).context("remove the report of an earlier run")?;
        }
        let args = inside_args(options, who, &programs, &output);
        let status = runtime.block_on(namespaces::run(&args, &output.join(who.name())))?;
        if !status.success() {
            bail!("the run with {} failed: {status}; logs are in {}", who.name(), output.display());
        }
        runs.push((who, report::read(&report)?));
    }
    let of = |wanted: Who| runs.iter().find(|(who, _)| *who == wanted).map(|(_, run)| run);
    let comparison = Comparison { upstream: of(Who::Upstream), ours: of(Who::Ours) };
    print!("\n{}", comparison.table());
    let regressions = comparison.regressions();
    println!("\n{} tests pass with upstream's and fail with ours", regressions.len());
    for (name, verdict) in &regressions {
        println!("- {name}\n  {}", verdict.message);
    }
    match comparison.run_by_one_only() {
        0 => {}
        count => println!("{count} tests ran with one of the two only; --minutes gives them more time"),
    }
    Ok(if regressions.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is built before a rig starts.
pub(crate) struct Programs {
    upstream: PathBuf,
    ours: PathBuf,
}

impl Programs {
    pub(crate) fn provide(kcm: Option<&Path>) -> anyhow::Result<Self> {
        crate::assets::provide(false)?;
        Artefacts::provide()?;
        let ours = match kcm {
            Some(path) => path.canonicalize().with_context(|| format!("find {}", path.display()))?,
            None => ours::binary(Profile::Release)?,
        };
        Ok(Self { upstream: Assets::find()?.upstream_manager()?, ours })
    }
}

/// Where the logs go. Nodes hide some folders of the machine behind their own.
pub(crate) fn output_folder(named: Option<&Path>, task: &str) -> anyhow::Result<PathBuf> {
    let folder = named.map_or_else(|| crate::root().join("target").join(task), Path::to_owned);
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let folder = folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
    if let Some(hidden) = node::OWN_FOLDERS.iter().find(|hidden| folder.starts_with(hidden)) {
        bail!("--output {} is below {hidden}, which every node replaces by its own", folder.display());
    }
    Ok(folder)
}

fn inside_args(options: &Options, who: Who, programs: &Programs, output: &Path) -> Vec<OsString> {
    let kcm = if who == Who::Upstream { &programs.upstream } else { &programs.ours };
    let mut args: Vec<OsString> = vec![
        "conformance".into(),
        "--cgroup".into(),
        namespaces::cgroup().into(),
        "--manager".into(),
        who.name().into(),
        "--procs".into(),
        options.procs.to_string().into(),
        "--minutes".into(),
        options.minutes.to_string().into(),
        "--kcm".into(),
        kcm.into(),
        "--output".into(),
        output.into(),
    ];
    args.extend(options.tests.to_args().into_iter().map(OsString::from));
    args
}

/// What runs inside the namespaces: a rig, the tests, and a report in the output folder.
async fn inside(options: &Options, cgroup: &str) -> anyhow::Result<()> {
    let (Some(output), Some(kcm)) = (&options.output, &options.kcm) else {
        bail!("--cgroup is for internal use");
    };
    let artefacts = Artefacts::provide()?;
    let mut rig = start_rig(&artefacts, kcm, cgroup, &output.join(options.manager.name())).await?;
    let limits = Limits { processes: options.procs, minutes: options.minutes };
    let report = e2e::report_path(output, options.manager.name());
    let run = e2e::run(&artefacts, &mut rig, &options.tests.for_ginkgo()?, &limits, &report).await?;
    println!("  {} tests ran, {} passed", run.len(), run.values().filter(|verdict| verdict.passed).count());
    Ok(())
}

/// A rig with this controller manager.
pub(crate) async fn start_rig(
    artefacts: &Artefacts,
    kcm: &Path,
    cgroup: &str,
    folder: &Path,
) -> anyhow::Result<Rig> {
    let images = images::assemble(artefacts, folder)?;
    println!("  starting two nodes");
    let rig = Rig::start(artefacts, kcm, &images, cgroup).await?;
    std::fs::remove_file(&images).context("remove the images")?;
    Ok(rig)
}
