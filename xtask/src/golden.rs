//! Golden scenarios from the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use flyball_sim::cluster::{Assets, CLOUD_CONTROLLER_MANAGER};
use flyball_sim::golden::compare::Counts;
use flyball_sim::golden::run::Settings;
use flyball_sim::golden::scenario::Scenario;
use flyball_sim::golden::suite::{self, Corpus, Plan, Programs, Purpose, ScenarioResult};
use flyball_sim::ours::{self, Profile};

/// `cargo xtask golden`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the scenarios run: a real control plane, or the embedded server in virtual time
    #[arg(long, value_enum, default_value = "real")]
    backend: Backend,
    /// The controller manager to test [default: ours, built from this checkout; with --record upstream's]
    #[arg(long, value_name = "PATH")]
    kcm: Option<PathBuf>,
    /// The same for scenarios with a cloud [default: ours; with --record upstream's library over its fake cloud]
    #[arg(long, value_name = "PATH")]
    ccm: Option<PathBuf>,
    /// Write what the controller manager does as the new expectation
    #[arg(long)]
    record: bool,
    /// With --record: merge further runs into the expectation that exists, dropping what varies
    #[arg(long, requires = "record")]
    add: bool,
    /// With --record: replace only the field managers of the expectation that exists
    #[arg(long, requires = "record", conflicts_with = "add")]
    managers: bool,
    /// With --record: runs per scenario; only what they agree on is kept [default: 2; embedded: 1, since all are the same]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Print what the controller manager does, without comparing
    #[arg(long, conflicts_with = "record")]
    show: bool,
    /// Run also the scenarios whose controllers are not all here yet
    #[arg(long)]
    all: bool,
    /// All request and event counts must match
    #[arg(long)]
    strict: bool,
    /// Clusters side by side
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    jobs: usize,
    /// Repeat a scenario that fails up to N times, after all others
    #[arg(long, default_value_t = 0, value_name = "N")]
    retry: usize,
    /// Multiplies waiting times, for slow machines and debug builds
    #[arg(long, env = "GOLDEN_PATIENCE", default_value_t = 1.0, value_name = "FACTOR")]
    patience: f64,
    /// Print each step
    #[arg(short, long)]
    verbose: bool,
    /// The folder with scenarios/ and expected/ [default: tests/golden]
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// Parts of scenario names, or patterns with `*`
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Real,
    Embedded,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let corpus =
        Corpus::in_folder(options.corpus.clone().unwrap_or_else(|| crate::root().join("tests/golden")));
    let mut scenarios = corpus.select(&options.filters)?;
    if options.record && options.backend == Backend::Embedded {
        may_record_ours(options, &corpus, &scenarios)?;
    }
    let purpose = purpose(options);
    if matches!(purpose, Purpose::Check(_)) {
        let (known, unknown): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(|s| corpus.has_recording(s));
        for scenario in unknown {
            println!(
                "SKIP {}: no expectation; --record makes one of what upstream does, --record --backend embedded of \
                 what ours does",
                scenario.name
            );
        }
        scenarios = known;
    }
    if options.kcm.is_none() && options.ccm.is_none() && !options.record && !options.all {
        scenarios = leave_out_missing(scenarios);
    }
    let plan = Plan {
        corpus,
        purpose,
        programs: match options.backend {
            Backend::Real => programs(options, &scenarios)?,
            Backend::Embedded if options.kcm.is_some() || options.ccm.is_some() => {
                anyhow::bail!(
                    "--kcm and --ccm go with --backend real: the embedded backend runs our controllers in process"
                )
            }
            Backend::Embedded => Programs::default(),
        },
        jobs: options.jobs,
        retries: options.retry,
        settings: Settings {
            patience: options.patience,
            verbose: options.verbose,
            check_reads: is_ours(options),
        },
    };
    judge(options.backend, &plan, scenarios)
}

/// Recordings are of upstream, wherever it has the behaviour: what ours does must not replace them.
fn may_record_ours(options: &Options, corpus: &Corpus, scenarios: &[Scenario]) -> anyhow::Result<()> {
    if options.runs.is_some_and(|runs| runs > 1) {
        anyhow::bail!("--runs goes with --backend real: runs on the embedded backend do not differ");
    }
    match scenarios.iter().find(|scenario| corpus.has_recording(scenario)) {
        Some(Scenario { name, .. }) => anyhow::bail!(
            "expected/{name}.json exists, and --backend embedded would record ours over upstream's; remove the file first \
             if upstream cannot have the behaviour"
        ),
        None => Ok(()),
    }
}

/// Drops scenarios for which ours lacks a controller, and prints each.
fn leave_out_missing(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let total = scenarios.len();
    let mut kept = Vec::new();
    for scenario in scenarios {
        match scenario.lacks() {
            Some(missing) => println!("SKIP {}: {missing}", scenario.name),
            None => kept.push(scenario),
        }
    }
    if kept.len() < total {
        println!("{} of {total} scenarios are left out; --all runs them anyway", total - kept.len());
    }
    kept
}

fn purpose(options: &Options) -> Purpose {
    let runs = options.runs.unwrap_or(if options.backend == Backend::Embedded { 1 } else { 2 }).max(1);
    if options.record && options.managers {
        return Purpose::RecordManagers { runs };
    }
    if options.record {
        return Purpose::Record { runs, add: options.add };
    }
    if options.show {
        return Purpose::Show;
    }
    Purpose::Check(if options.strict { Counts::Strict } else { Counts::Relaxed })
}

fn judge(backend: Backend, plan: &Plan, scenarios: Vec<Scenario>) -> anyhow::Result<ExitCode> {
    let total = scenarios.len();
    let (mut finished, mut passed) = (0, 0);
    let report = |result: ScenarioResult| {
        finished += 1;
        passed += usize::from(result.passed);
        let word = if result.passed { "PASS" } else { "FAIL" };
        println!("[{finished}/{total}] {word} {} ({:.0}s)", result.name, result.took.as_secs_f64());
        print!("{}", result.detail);
    };
    let done = match backend {
        Backend::Real => suite::run_real(plan, scenarios, report),
        Backend::Embedded => suite::run_embedded(plan, scenarios, report),
    };
    println!("{passed} passed, {} failed", total - passed);
    done?;
    if total == 0 {
        anyhow::bail!("no scenario was run");
    }
    Ok(if passed == total { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the controller manager under test is built from this checkout.
fn is_ours(options: &Options) -> bool {
    match options.backend {
        Backend::Embedded => true,
        Backend::Real => !options.record && options.kcm.is_none() && options.ccm.is_none(),
    }
}

/// The programs under test, as far as the scenarios need them.
fn programs(options: &Options, scenarios: &[Scenario]) -> anyhow::Result<Programs> {
    let mut programs = Programs::default();
    if scenarios.iter().any(|scenario| scenario.cloud.is_none()) {
        programs.kube = found(match &options.kcm {
            Some(path) => path.clone(),
            None if options.record => Assets::find()?.upstream_manager()?,
            None => ours::binary(Profile::Debug)?,
        })?;
    }
    if scenarios.iter().any(|scenario| scenario.cloud.is_some()) {
        programs.cloud = found(match &options.ccm {
            Some(path) => path.clone(),
            None if options.record => Assets::find()?.upstream_cloud_manager()?,
            None => ours::build(CLOUD_CONTROLLER_MANAGER, Profile::Debug)?,
        })?;
    }
    Ok(programs)
}

fn found(program: PathBuf) -> anyhow::Result<PathBuf> {
    program.canonicalize().with_context(|| format!("find {}", program.display()))
}
