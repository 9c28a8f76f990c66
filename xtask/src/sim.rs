//! Scenarios under faults from the command line.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::Context as _;
use flyball_sim::ours;
use flyball_sim::trial::{Ordeal, Outcome, Trial};

/// `cargo xtask sim`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many seeds; they are dealt out to the scenarios in turn
    #[arg(long, default_value_t = 100, value_name = "N")]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    first: u64,
    /// Every scenario with every seed
    #[arg(long)]
    all: bool,
    /// Instead of seeds: one run for each write of a scenario, with a crash after it
    #[arg(long)]
    crashes: bool,
    /// Runs side by side
    #[arg(short, long, default_value_t = 2, value_name = "N")]
    jobs: usize,
    /// Parts of scenario names
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

/// A scenario and how it ends without faults.
struct Subject {
    trial: Trial,
    calm: Outcome,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let subjects = subjects(options)?;
    let runs: VecDeque<(usize, Ordeal)> = match options.crashes {
        true => subjects.iter().enumerate().flat_map(|(n, subject)| crashes(n, subject)).collect(),
        false => seeds(options, subjects.len()).collect(),
    };
    let total = runs.len();
    println!("{} scenarios, {total} runs", subjects.len());
    let (queue, failed) = (Mutex::new(runs), Mutex::new(0usize));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some((n, ordeal)) = next(&queue) {
                    if let Err(why) = attempt(&subjects[n], ordeal) {
                        *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
                        println!(
                            "FAIL {} {ordeal:?}\n{why}\n  again: {}",
                            name(&subjects[n]),
                            again(&subjects[n], ordeal)
                        );
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{} passed, {failed} failed", total - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn next(queue: &Mutex<VecDeque<(usize, Ordeal)>>) -> Option<(usize, Ordeal)> {
    queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front()
}

fn name(subject: &Subject) -> &str {
    &subject.trial.scenario().name
}

/// The scenarios that ours can play, each with its end without faults. One that does not come to rest even then is
/// a failure of its own, told and left out.
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
        let trial = Trial::load(&file)?;
        if let Some(missing) = ours::lacks(&trial.scenario().controllers) {
            println!("SKIP {stem}: {missing}");
            continue;
        }
        match trial.perform(Ordeal::Calm) {
            Ok(calm) => subjects.push(Subject { trial, calm }),
            Err(error) => println!("SKIP {stem}: even without faults, {error:#}"),
        }
    }
    Ok(subjects)
}

fn crashes(n: usize, subject: &Subject) -> impl Iterator<Item = (usize, Ordeal)> {
    (1..=subject.calm.writes).map(move |write| (n, Ordeal::CrashAfter(write)))
}

fn seeds(options: &Options, subjects: usize) -> Box<dyn Iterator<Item = (usize, Ordeal)>> {
    let (first, last, all) = (options.first, options.first + options.seeds, options.all);
    if subjects == 0 {
        return Box::new(std::iter::empty());
    }
    Box::new((first..last).flat_map(move |seed| {
        let dealt = usize::try_from(seed).unwrap_or(0) % subjects;
        (0..subjects).filter(move |n| all || *n == dealt).map(move |n| (n, Ordeal::Seed(seed)))
    }))
}

fn attempt(subject: &Subject, ordeal: Ordeal) -> Result<(), String> {
    let outcome = subject.trial.perform(ordeal).map_err(|error| format!("  {error:#}"))?;
    Trial::compare(&subject.calm, &outcome)
}

fn again(subject: &Subject, ordeal: Ordeal) -> String {
    match ordeal {
        Ordeal::Seed(seed) => format!("cargo xtask sim --all --first {seed} --seeds 1 {}", name(subject)),
        _ => format!("cargo xtask sim --crashes {}", name(subject)),
    }
}
