//! `cargo xtask sim`: scenarios under faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flyball_sim::embedded::Keys;
use flyball_sim::faults::{Deliberate, Kind};
use flyball_sim::trial::{FaultPlan, Outcome, Trial, TrialReport};

/// `cargo xtask sim`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of seeds; they are distributed over the scenarios in turn
    #[arg(long, default_value_t = 100, value_name = "N")]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    first: u64,
    /// Every scenario with every seed
    #[arg(long)]
    all: bool,
    /// Only these kinds of faults, at their highest rate, instead of a mix chosen by the seed
    #[arg(long, value_delimiter = ',', value_name = "KIND,…")]
    fault: Vec<Kind>,
    /// Exclude these kinds of faults
    #[arg(long, value_delimiter = ',', value_name = "KIND,…")]
    spare: Vec<Kind>,
    /// Instead of seeds: for each write of a scenario one run that crashes after it
    #[arg(long)]
    crashes: bool,
    /// Instead of seeds: one scenario of each family, each with its own seed
    #[arg(long)]
    slice: bool,
    /// Start no new run after this many minutes
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Run only every n-th run, starting with the i-th
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Every run a second time, which must make the same requests at the same times
    #[arg(long)]
    twice: bool,
    /// Print all requests of runs that fail
    #[arg(long)]
    requests: bool,
    /// Number of runs in parallel
    #[arg(short, long, default_value_t = 2, value_name = "N")]
    jobs: usize,
    /// Parts of scenario names
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(i, n)| (1..=*n).contains(i)).ok_or_else(|| "a shard is like 1/4".to_owned())
}

/// A scenario and, once a run needs it, its end state without faults.
struct Subject {
    trial: Trial,
    baseline: Mutex<Option<Result<Outcome, String>>>,
}

/// A run: which subject, with which faults.
type Planned = (usize, FaultPlan);

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    hide_deliberate_panics();
    let subjects = subjects(options)?;
    let _keys = Keys::shared()?;
    let mut runs: Vec<Planned> = match (options.crashes, options.slice) {
        (true, _) => subjects.iter().enumerate().flat_map(|(n, subject)| crashes(n, subject)).collect(),
        (_, true) => slice(options, &subjects),
        _ => seeds(options, subjects.len()).collect(),
    };
    if let Some((i, n)) = options.shard {
        runs = runs.into_iter().skip(i - 1).step_by(n).collect();
    }
    let total = runs.len();
    println!("{} scenarios, {total} runs", subjects.len());
    let queue = Mutex::new(VecDeque::from(runs));
    let totals = Mutex::new(Totals::new(total));
    let end = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some((n, fault_plan)) = next(&queue, end) {
                    let started = Instant::now();
                    let (why, report) = attempt(&subjects[n], &fault_plan, options.twice);
                    let took = started.elapsed();
                    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                    totals.add(&subjects[n].trial, took, &fault_plan, &report, why.is_some());
                    if let Some(why) = why {
                        let (name, repeat) = (name(&subjects[n]), repeat_command(&subjects[n], &fault_plan));
                        let kinds: Vec<&str> =
                            subjects[n].trial.kinds(&fault_plan).iter().map(|kind| kind.name()).collect();
                        println!(
                            "FAIL {name} {fault_plan:?} ({})\n{why}\n  repeat with: {repeat}",
                            kinds.join(", ")
                        );
                        report
                            .history
                            .lines()
                            .filter(|_| options.requests)
                            .for_each(|line| println!("  {line}"));
                    }
                }
            });
        }
    });
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.print();
    Ok(if totals.failed == 0 && totals.runs > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Deliberate panics of the fault injection are not printed.
fn hide_deliberate_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Deliberate>() {
            usual(panic);
        }
    }));
}

fn next(queue: &Mutex<VecDeque<Planned>>, end: Option<Instant>) -> Option<Planned> {
    if end.is_some_and(|end| Instant::now() >= end) {
        return None;
    }
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn name(subject: &Subject) -> &str {
    &subject.trial.scenario().name
}

/// The scenarios for which ours has all controllers.
fn subjects(options: &Options) -> anyhow::Result<Vec<Subject>> {
    let folder = crate::root().join("tests/golden/scenarios");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut subjects = vec![];
    for file in files {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let wanted = options.filters.is_empty() || options.filters.iter().any(|filter| stem.contains(filter));
        if !wanted || file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let mut trial = Trial::load(&file)?;
        trial.spare(&options.spare);
        if let Some(missing) = trial.scenario().lacks() {
            println!("SKIP {stem}: {missing}");
            continue;
        }
        subjects.push(Subject { trial, baseline: Mutex::default() });
    }
    Ok(subjects)
}

/// The end state of a scenario without faults, computed once.
fn baseline<T>(subject: &Subject, read: impl FnOnce(&Result<Outcome, String>) -> T) -> T {
    let mut baseline = subject.baseline.lock().unwrap_or_else(PoisonError::into_inner);
    let baseline = baseline
        .get_or_insert_with(|| subject.trial.outcome(&FaultPlan::None).map_err(|error| format!("{error:#}")));
    read(baseline)
}

fn crashes(n: usize, subject: &Subject) -> impl Iterator<Item = Planned> + use<> {
    let writes = baseline(subject, |baseline| baseline.as_ref().map_or(1, |baseline| baseline.writes));
    (1..=writes).map(move |write| (n, FaultPlan::CrashAfter(write)))
}

fn fault_plan(options: &Options, seed: u64) -> FaultPlan {
    match options.fault.is_empty() {
        true => FaultPlan::Seed(seed),
        false => FaultPlan::Only(options.fault.clone(), seed),
    }
}

fn seeds(options: &Options, subjects: usize) -> impl Iterator<Item = Planned> {
    let seeds = options.first..options.first + options.seeds;
    seeds.flat_map(move |seed| {
        let dealt = usize::try_from(seed).unwrap_or(0) % subjects.max(1);
        (0..subjects).filter(move |n| options.all || *n == dealt).map(move |n| (n, fault_plan(options, seed)))
    })
}

/// One scenario of each family (the first word of its name), each with its own seed; another first seed selects other
/// scenarios.
fn slice(options: &Options, subjects: &[Subject]) -> Vec<Planned> {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, subject) in subjects.iter().enumerate() {
        let family = name(subject).split('-').next().unwrap_or_default();
        families.entry(family).or_default().push(n);
    }
    let numbered = families.values().zip(options.first..);
    let chosen = |(all, seed): (&Vec<usize>, u64)| {
        let n = all[usize::try_from(seed).unwrap_or(0) % all.len()];
        (n, fault_plan(options, seed))
    };
    numbered.map(chosen).collect()
}

fn attempt(subject: &Subject, fault_plan: &FaultPlan, twice: bool) -> (Option<String>, TrialReport) {
    let report = subject.trial.run(fault_plan);
    let why = baseline(subject, |baseline| match (baseline, &report.outcome) {
        (Err(why), _) => Some(format!("  even without faults, {why}")),
        (_, Err(error)) => Some(format!("  {error:#}")),
        (Ok(baseline), Ok(outcome)) => Trial::compare(baseline, outcome).err(),
    });
    let differs = || report.history.difference(&subject.trial.run(fault_plan).history);
    let unequal = twice.then(differs).flatten().map(|what| format!("  a second run differs: {what}"));
    let why = why.or(unequal);
    (why, report)
}

fn repeat_command(subject: &Subject, fault_plan: &FaultPlan) -> String {
    let name = name(subject);
    match fault_plan {
        FaultPlan::Only(kinds, seed) => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            format!("cargo xtask sim --all --fault {} --first {seed} --seeds 1 {name}", kinds.join(","))
        }
        FaultPlan::Seed(seed) => format!("cargo xtask sim --all --first {seed} --seeds 1 {name}"),
        FaultPlan::None | FaultPlan::CrashAfter(_) => format!("cargo xtask sim --crashes {name}"),
    }
}

/// Counts of runs, writes, checks and failures.
#[derive(Default, Clone)]
struct Line {
    runs: u64,
    writes: u64,
    judged: u64,
    failed: u64,
    /// Broken rules by the faults of the run; a run with several counts for each.
    violations: BTreeMap<&'static str, u64>,
}

impl Line {
    fn columns(&self) -> String {
        let Self { runs, writes, judged, failed, .. } = self;
        format!("{runs:>7} {writes:>9} {judged:>9} {failed:>7}")
    }
}

const COLUMNS: &str = "   runs    writes     rules  failed";

/// The results of all runs.
struct Totals {
    total: usize,
    runs: usize,
    failed: usize,
    began: Instant,
    reported: Instant,
    by_fault: BTreeMap<&'static str, Line>,
    by_controller: BTreeMap<&'static str, Line>,
    /// How often each scenario was run, and the seconds that this took.
    by_scenario: BTreeMap<String, (u64, f64)>,
}

impl Totals {
    fn new(total: usize) -> Self {
        let now = Instant::now();
        let (by_fault, by_controller, by_scenario) = Default::default();
        Self { total, runs: 0, failed: 0, began: now, reported: now, by_fault, by_controller, by_scenario }
    }

    fn add(
        &mut self,
        trial: &Trial,
        took: Duration,
        fault_plan: &FaultPlan,
        report: &TrialReport,
        failed: bool,
    ) {
        let findings = &report.findings;
        let kinds = trial.kinds(fault_plan);
        self.runs += 1;
        self.failed += usize::from(failed);
        let (runs, seconds) = self.by_scenario.entry(trial.scenario().name.clone()).or_default();
        *runs += 1;
        *seconds += took.as_secs_f64();
        for kind in &kinds {
            let line = self.by_fault.entry(kind.name()).or_default();
            line.runs += 1;
            line.writes += findings.writes.values().sum::<u64>();
            line.judged += findings.judged.values().sum::<u64>();
            line.failed += u64::from(failed);
            *line.violations.entry("all").or_default() += findings.violations.len() as u64;
        }
        let broken = findings.violations.iter().map(|broken| broken.controller);
        let controllers: BTreeSet<&str> =
            findings.writes.keys().chain(findings.judged.keys()).copied().chain(broken).collect();
        for controller in controllers {
            let line = self.by_controller.entry(controller).or_default();
            line.runs += 1;
            line.writes += findings.writes.get(controller).copied().unwrap_or(0);
            line.judged += findings.judged.get(controller).copied().unwrap_or(0);
            line.failed += u64::from(failed);
            let own =
                findings.violations.iter().filter(|broken| broken.controller == controller).count() as u64;
            for kind in &kinds {
                *line.violations.entry(kind.name()).or_default() += own;
            }
        }
        if self.reported.elapsed() > Duration::from_secs(30) {
            self.reported = Instant::now();
            let seconds = self.began.elapsed().as_secs();
            println!("… {} of {} runs, {} failed, {seconds} s", self.runs, self.total, self.failed);
        }
    }

    fn print(&self) {
        println!("\n{:<12} {COLUMNS} violations", "fault");
        for (fault, line) in &self.by_fault {
            let violations = line.violations.values().sum::<u64>();
            println!("{fault:<12} {} {violations:>10}", line.columns());
        }
        let kinds: String = Kind::ALL.iter().map(|kind| format!("{:>11}", kind.name())).collect();
        println!("\nviolations by fault:\n{:<66} {COLUMNS}{kinds}", "controller");
        for (controller, line) in &self.by_controller {
            let of = |kind: &Kind| format!("{:>11}", line.violations.get(kind.name()).copied().unwrap_or(0));
            let faults: String = Kind::ALL.iter().map(of).collect();
            println!("{controller:<66} {}{faults}", line.columns());
        }
        let mut slowest: Vec<_> =
            self.by_scenario.iter().map(|(name, (runs, took))| (took / *runs as f64, name)).collect();
        slowest.sort_by(|one, other| other.0.total_cmp(&one.0));
        println!("\nthe slowest scenarios:");
        for (seconds, name) in slowest.iter().take(SLOWEST) {
            println!("{name:<48} {seconds:>7.3} s");
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let rules: u64 = self.by_controller.values().map(|line| line.judged).sum();
        println!("\n{rules} rules checked in {seconds:.0} s, {:.1} runs/s", self.runs as f64 / seconds);
        println!("{} passed, {} failed", self.runs - self.failed, self.failed);
    }
}

/// This many scenarios are listed as the slowest.
const SLOWEST: usize = 10;
