//! Runs many scenarios in parallel, each worker on its own cluster, and reports each result as it comes.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use parking_lot::Mutex;

use super::backend::Backend;
use super::compare::{Counts, differences, merge};
use super::embedded::InProcess;
use super::expected::{Recording, Snapshot};
pub use super::real::Programs;
use super::real::Real;
use super::report::explain;
use super::run::{Run, Settings};
use super::scenario::Scenario;
use super::text::glob;
use crate::cluster::Unavailable;
use crate::features::Features;

/// A recording with more unstable facts than this is not worth keeping.
const MOST_FLAKY: usize = 40;

/// A folder with `scenarios/*.yaml` and `expected/*.json`.
#[derive(Debug, Clone)]
pub struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    /// The corpus in `folder`.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The scenarios whose names match one of `filters` (a part of the name, or a pattern with `*`); all without any.
    pub fn select(&self, filters: &[String]) -> anyhow::Result<Vec<Scenario>> {
        let folder = self.folder.join("scenarios");
        let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
            if path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
                files.push(path);
            }
        }
        files.sort();
        let mut unused: BTreeSet<&String> = filters.iter().collect();
        let mut chosen = Vec::new();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let matching: Vec<&String> = filters.iter().filter(|filter| matches(filter, &name)).collect();
            if filters.is_empty() || !matching.is_empty() {
                chosen.push(Scenario::load(&file)?);
            }
            unused.retain(|filter| !matching.contains(filter));
        }
        match unused.first() {
            Some(filter) => bail!("no scenario in {} matches {filter:?}", folder.display()),
            None => Ok(chosen),
        }
    }

    fn expected(&self, scenario: &Scenario) -> PathBuf {
        self.folder.join("expected").join(format!("{}.json", scenario.name))
    }

    /// Whether there is a recording to compare with.
    pub fn has_recording(&self, scenario: &Scenario) -> bool {
        self.expected(scenario).is_file()
    }
}

fn matches(filter: &str, name: &str) -> bool {
    match filter.contains(['*', '?']) {
        true => glob(filter, name),
        false => name.contains(filter),
    }
}

/// The purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Compare it with the recording.
    Check(Counts),
    /// Make a recording of what this many runs agree on.
    Record {
        runs: usize,
        /// Whether the recording that exists counts as a further run.
        add: bool,
    },
    /// Replace the field managers of the recording that exists by those on which this many runs agree.
    RecordManagers {
        runs: usize,
    },
    Show,
}

/// Settings of a suite.
#[derive(Debug, Clone)]
pub struct Plan {
    pub corpus: Corpus,
    pub purpose: Purpose,
    /// The controller managers under test, on real clusters.
    pub programs: Programs,
    pub jobs: usize,
    /// Retries for a scenario that fails, after all others: a busy machine may have been the reason.
    pub retries: usize,
    /// Settings of each run.
    pub settings: Settings,
}

/// The result of one scenario.
#[derive(Debug)]
pub struct ScenarioResult {
    pub name: String,
    pub passed: bool,
    /// Details; lines end with a newline.
    pub detail: String,
    pub took: Duration,
}

/// Runs the scenarios on real clusters and passes each result to `report` as it comes.
pub fn run_real(
    plan: &Plan,
    scenarios: Vec<Scenario>,
    report: impl FnMut(ScenarioResult),
) -> anyhow::Result<()> {
    run(plan, scenarios, report, |queue, results| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("make a runtime")?;
        runtime.block_on(async {
            let mut backend: Option<(Features, Real)> = None;
            while let Some(Turn { scenario, failures }) = next(queue) {
                let features = &scenario.api_server;
                let mut fresh = match backend.take() {
                    Some((same, used)) if same == *features => used,
                    _ => start(plan, features).await?,
                };
                let result = judge(plan, &scenario, &mut fresh).await;
                if result.passed {
                    backend = Some((features.clone(), fresh));
                } else {
                    // Its logs are needed, and a failed scenario may have left anything behind.
                    fresh.keep_logs();
                    if failures < plan.retries {
                        queue.lock().push_back(Turn { scenario, failures: failures + 1 });
                        continue;
                    }
                }
                if results.send(result).is_err() {
                    break;
                }
            }
            Ok(())
        })
    })
}

/// Runs the scenarios in this process, in virtual time, with our controller manager.
pub fn run_embedded(
    plan: &Plan,
    scenarios: Vec<Scenario>,
    report: impl FnMut(ScenarioResult),
) -> anyhow::Result<()> {
    run(plan, scenarios, report, |queue, results| {
        while let Some(Turn { scenario, .. }) = next(queue) {
            // One runtime per scenario: when it is dropped, leftover tasks are, too.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .context("make a runtime")?;
            let result = runtime.block_on(async {
                let mut backend =
                    InProcess::start(&scenario.api_server).await.context("start the embedded cluster")?;
                anyhow::Ok(judge(plan, &scenario, &mut backend).await)
            })?;
            if results.send(result).is_err() {
                break;
            }
        }
        Ok(())
    })
}

async fn start(plan: &Plan, features: &Features) -> anyhow::Result<Real> {
    Real::start(plan.programs.clone(), plan.settings.patience, features.clone()).await.map_err(|e| match e {
        Unavailable::Skip(skip) => anyhow::anyhow!("{skip}"),
        Unavailable::Broken(e) => e,
    })
}

/// Runs a scenario for the given purpose.
async fn judge<B: Backend>(plan: &Plan, scenario: &Scenario, backend: &mut B) -> ScenarioResult {
    let start = Instant::now();
    let (detail, passed) = match purpose(plan, scenario, backend).await {
        Ok(detail) => (detail, true),
        Err(detail) => (detail, false),
    };
    ScenarioResult { name: scenario.name.clone(), passed, detail, took: start.elapsed() }
}

async fn purpose<B: Backend>(plan: &Plan, scenario: &Scenario, backend: &mut B) -> Result<String, String> {
    let file = plan.corpus.expected(scenario);
    match plan.purpose {
        Purpose::Check(counts) => check(plan, scenario, backend, &file, counts).await,
        Purpose::Record { runs, add } => record(plan, scenario, backend, &file, runs, add).await,
        Purpose::RecordManagers { runs } => record_managers(plan, scenario, backend, &file, runs).await,
        Purpose::Show => {
            let snapshots = complete(plan, scenario, backend).await?;
            let shown = serde_json::to_value(&snapshots).map_err(|e| e.to_string())?;
            Ok(super::text::pretty(&shown) + "\n")
        }
    }
}

async fn check<B: Backend>(
    plan: &Plan,
    scenario: &Scenario,
    backend: &mut B,
    file: &Path,
    counts: Counts,
) -> Result<String, String> {
    let mut want = Recording::load(file).map_err(|e| format!("    {e:#}\n"))?.snapshots;
    let outcome = Run::perform(backend, scenario, plan.settings).await;
    let mut detail = String::new();
    if let Some(why) = &outcome.stopped {
        // Report the differences up to there.
        want.truncate(outcome.snapshots.len());
        detail = format!("  stopped: {why}\n");
    }
    let differences = differences(&want, &outcome.snapshots, counts);
    detail.insert_str(0, &explain(&differences));
    if detail.is_empty() { Ok(detail) } else { Err(detail) }
}

async fn record<B: Backend>(
    plan: &Plan,
    scenario: &Scenario,
    backend: &mut B,
    file: &Path,
    runs: usize,
    add: bool,
) -> Result<String, String> {
    let start = Instant::now();
    let mut seconds = None;
    let mut flaky = BTreeSet::new();
    let mut merged: Option<Vec<Snapshot>> = None;
    if add && file.is_file() {
        let old = Recording::load(file).map_err(|e| format!("    {e:#}\n"))?;
        (seconds, merged) = (Some(old.seconds), Some(old.snapshots));
        flaky.extend(old.flaky);
    }
    for _ in 0..runs {
        let seen = complete(plan, scenario, backend).await?;
        merged = Some(match merged {
            Some(before) => merge(before, seen, &mut flaky),
            None => seen,
        });
    }
    let list =
        |facts: &BTreeSet<String>| facts.iter().map(|fact| format!("    unstable: {fact}\n")).collect();
    if flaky.len() > MOST_FLAKY {
        let facts: String = list(&flaky);
        return Err(format!("  {} facts differ between the runs, not saved:\n{facts}", flaky.len()));
    }
    let took = start.elapsed().as_secs_f64() / runs.max(1) as f64;
    let detail = list(&flaky);
    let recording = Recording {
        name: scenario.name.clone(),
        seconds: seconds.unwrap_or(took.round() as u64),
        flaky: flaky.into_iter().collect(),
        snapshots: merged.unwrap_or_default(),
    };
    recording.save(file).map_err(|e| format!("  {e:#}\n"))?;
    Ok(detail)
}

async fn record_managers<B: Backend>(
    plan: &Plan,
    scenario: &Scenario,
    backend: &mut B,
    file: &Path,
    runs: usize,
) -> Result<String, String> {
    let mut recording = Recording::load(file).map_err(|e| format!("    {e:#}\n"))?;
    let only_managers = |seen: Vec<Snapshot>| -> Vec<Snapshot> {
        let keep = |Snapshot { label, managers, .. }| Snapshot { label, managers, ..Snapshot::default() };
        seen.into_iter().map(keep).collect()
    };
    let (mut merged, mut flaky) = (None, BTreeSet::new());
    for _ in 0..runs {
        let seen = only_managers(complete(plan, scenario, backend).await?);
        merged = Some(match merged {
            Some(before) => merge(before, seen, &mut flaky),
            None => seen,
        });
    }
    for seen in merged.unwrap_or_default() {
        if let Some(snapshot) = recording.snapshots.iter_mut().find(|snapshot| snapshot.label == seen.label) {
            snapshot.managers = seen.managers;
        }
    }
    recording.save(file).map_err(|e| format!("  {e:#}\n"))?;
    Ok(flaky.iter().map(|fact| format!("    unstable: {fact}\n")).collect())
}

async fn complete<B: Backend>(
    plan: &Plan,
    scenario: &Scenario,
    backend: &mut B,
) -> Result<Vec<Snapshot>, String> {
    let outcome = Run::perform(backend, scenario, plan.settings).await;
    match outcome.stopped {
        Some(why) => Err(format!("  stopped: {why}\n")),
        None => Ok(outcome.snapshots),
    }
}

type Queue = Mutex<VecDeque<Turn>>;

/// A scenario, and how often it has failed.
struct Turn {
    scenario: Scenario,
    failures: usize,
}

fn next(queue: &Queue) -> Option<Turn> {
    queue.lock().pop_front()
}

/// Workers take scenarios from one queue, the longest first, so that no worker has a long one left at the end; those that
/// need another API server come last, together, so that few servers are started.
fn run(
    plan: &Plan,
    mut scenarios: Vec<Scenario>,
    mut report: impl FnMut(ScenarioResult),
    work: impl Fn(&Queue, mpsc::Sender<ScenarioResult>) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let length = |scenario: &Scenario| scenario.seconds.unwrap_or(10.0);
    scenarios.sort_by(|a, b| a.api_server.cmp(&b.api_server).then_with(|| length(b).total_cmp(&length(a))));
    let workers = plan.jobs.clamp(1, scenarios.len().max(1));
    let turns = scenarios.into_iter().map(|scenario| Turn { scenario, failures: 0 });
    let queue: Queue = Mutex::new(turns.collect());
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        let (work, queue) = (&work, &queue);
        let handles: Vec<_> = (0..workers)
            .map(|_| {
                let sender = sender.clone();
                scope.spawn(move || work(queue, sender))
            })
            .collect();
        drop(sender);
        for result in results {
            report(result);
        }
        handles.into_iter().try_for_each(|handle| match handle.join() {
            Ok(result) => result,
            Err(_) => bail!("a worker panicked"),
        })
    })
}
