//! Side by side: upstream's controller manager and ours under the same load, each round on a fresh etcd and API server.

mod chart;
mod hearts;
mod measure;
mod nodes;
mod report;
mod scenarios;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use flyball_sim::cluster::Assets;
use flyball_sim::ours::{self, Profile};

use measure::{Bench, Round};
use report::Comparison;
use scenarios::Scenario;

/// `cargo xtask bench`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds for each contender, alternating
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// `--kube-api-qps` of both
    #[arg(long, default_value_t = 1000, value_name = "N")]
    qps: u32,
    /// `--kube-api-burst` of both
    #[arg(long, default_value_t = 2000, value_name = "N")]
    burst: u32,
    /// `--controllers` of both: what users run by default
    #[arg(long, default_value = "*", value_delimiter = ',', value_name = "LIST")]
    controllers: Vec<String>,
    /// Our controller manager [default: built with the profile `dist`]
    #[arg(long, value_name = "PATH")]
    kcm: Option<PathBuf>,
    /// Upstream's controller manager [default: from the assets]
    #[arg(long, value_name = "PATH")]
    upstream: Option<PathBuf>,
    /// If ours lacks one of the controllers, run upstream's alone (nothing is written)
    #[arg(long)]
    upstream_alone: bool,
    /// Where the results go [default: docs/benchmarks]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Scenarios to run; all without any
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
}

/// The controller manager that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Upstream,
    Flyball,
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Flyball => "flyball",
        }
    }
}

/// Settings of all rounds.
pub(crate) struct Setup {
    upstream: PathBuf,
    flyball: Option<PathBuf>,
    pub(crate) controllers: Vec<String>,
    pub(crate) qps: u32,
    pub(crate) burst: u32,
}

impl Setup {
    pub(crate) fn program(&self, contender: Contender) -> anyhow::Result<&Path> {
        match contender {
            Contender::Upstream => Ok(&self.upstream),
            Contender::Flyball => self.flyball.as_deref().context("our controller manager was not built"),
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let chosen = choose(&options.scenarios)?;
    // A program that was named on the command line says itself what it lacks.
    let lacking = options.kcm.is_none().then(|| ours::lacks(&options.controllers)).flatten();
    if let Some(skip) = &lacking {
        println!("ours cannot run it: {skip}");
    }
    let flyball = match &options.kcm {
        Some(path) => Some(path.canonicalize().with_context(|| format!("find {}", path.display()))?),
        None if lacking.is_some() => None,
        None => Some(ours::binary(Profile::Dist)?),
    };
    let upstream = match &options.upstream {
        Some(path) => path.canonicalize().with_context(|| format!("find {}", path.display()))?,
        None => Assets::find()?.upstream_manager()?,
    };
    let Options { controllers, qps, burst, rounds, upstream_alone, .. } = options;
    let setup = Setup { upstream, flyball, controllers: controllers.clone(), qps: *qps, burst: *burst };
    let output = options.output.clone().unwrap_or_else(|| crate::root().join("docs/benchmarks"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("make a runtime")?;
    for scenario in chosen {
        if lacking.is_none() {
            let comparison = runtime.block_on(compare(scenario, &setup, (*rounds).max(1)))?;
            print!("{}", comparison.table());
            comparison.save(&output)?;
        } else if *upstream_alone {
            let round = runtime.block_on(play(scenario, &setup, Contender::Upstream))?;
            println!("{} with upstream alone: {round:#?}", scenario.name());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn choose(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    if names.is_empty() {
        return Ok(Scenario::ALL.to_vec());
    }
    let known = || Scenario::ALL.map(Scenario::name).join(", ");
    let find = |name: &String| Scenario::ALL.into_iter().find(|scenario| scenario.name() == name);
    names
        .iter()
        .map(|name| find(name).with_context(|| format!("no scenario {name:?}; there are {}", known())))
        .collect()
}

/// Plays the rounds, the contenders taking turns at going first.
async fn compare(scenario: Scenario, setup: &Setup, rounds: usize) -> anyhow::Result<Comparison> {
    println!("{}: {}", scenario.name(), scenario.about());
    let mut comparison = Comparison::new(scenario, setup);
    for round in 0..rounds {
        let mut order = [Contender::Upstream, Contender::Flyball];
        if round % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            let seen = play(scenario, setup, contender).await.with_context(|| {
                format!("{} with {} in round {}", scenario.name(), contender.name(), round + 1)
            })?;
            println!("  round {}/{rounds} {:>8}: {}", round + 1, contender.name(), seen.summary());
            comparison.add(contender, seen);
        }
    }
    Ok(comparison)
}

async fn play(scenario: Scenario, setup: &Setup, contender: Contender) -> anyhow::Result<Round> {
    let mut bench = Bench::start(scenario, setup, contender).await?;
    match scenario.play(&mut bench).await {
        Ok(()) => bench.finish().await,
        Err(e) => {
            bench.keep_logs();
            bail!(e)
        }
    }
}
