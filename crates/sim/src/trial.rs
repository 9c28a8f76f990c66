//! Trials: a golden scenario under faults must end as it does without, and then be at rest.
//!
//! The claim under test is *eventually stable reconciliation*: whatever happened, once faults stop the cluster comes
//! to the same final state, and a controller manager that starts on it writes nothing. The clock of that one stands
//! still: what a schedule asks for in the next minute is no sign of unrest. On the way there every single write is
//! judged by the [invariants](crate::invariants).

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};

use crate::end_state::end_state;
use crate::faults::{Faults, Kind};
use crate::golden::compare::{Counts, differences};
use crate::golden::embedded::InProcess;
use crate::golden::expected::Snapshot;
use crate::golden::report::explain;
use crate::golden::run::{Run, Settings};
use crate::golden::scenario::Scenario;
use crate::invariants::Tally;

/// Appended to every scenario: a fresh controller manager without faults heals what is broken; another one, for which
/// no time passes, finds nothing to do.
const EPILOGUE: &str = "\n- kcm: restart\n- snapshot: {label: healed, quiet: 30}\n- kcm: restart\n- snapshot: {label: at rest, quiet: 30}\n";
/// Steps wait this much longer than usual: faults cost time, and virtual time costs nothing.
const PATIENCE: f64 = 60.0;

/// What goes wrong in a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ordeal {
    /// Nothing: the run that others are compared with.
    Calm,
    Seed(u64),
    /// These kinds of faults only, by a seed.
    Only(Vec<Kind>, u64),
    /// The controller manager dies after its n-th write.
    CrashAfter(u64),
}

impl Ordeal {
    fn faults(&self, spared: &[Kind]) -> Arc<Faults> {
        match self {
            Self::Calm => Faults::crash_after(u64::MAX),
            Self::Seed(seed) => Faults::random(*seed, spared),
            Self::Only(kinds, seed) => Faults::only(kinds, *seed, spared),
            Self::CrashAfter(_) if spared.contains(&Kind::Crash) => Faults::crash_after(u64::MAX),
            Self::CrashAfter(write) => Faults::crash_after(*write),
        }
    }

    fn kinds(&self, spared: &[Kind]) -> Vec<Kind> {
        match self {
            Self::CrashAfter(_) => vec![Kind::Crash],
            _ => self.faults(spared).mix().kinds(),
        }
    }
}

pub struct Performance {
    /// What the controllers have done, and which rules they have broken.
    pub tally: Tally,
    /// How it ended, or why it did not get there. A broken rule is a failure, too.
    pub outcome: anyhow::Result<Outcome>,
}

/// A scenario that can be tried.
pub struct Trial {
    scenario: Scenario,
}

/// What a trial has shown.
pub struct Outcome {
    /// The state at the end.
    healed: Snapshot,
    /// What a controller manager writes that starts on it.
    unrest: Option<String>,
    /// Writes that reached the server before faults stopped.
    pub writes: u64,
}

impl Trial {
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let parsed = Scenario::parse(&(text.trim_end().to_owned() + EPILOGUE));
        let scenario = parsed.map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        Ok(Self { scenario })
    }

    /// Leaves some kinds of faults out.
    pub fn spare(&mut self, kinds: &[Kind]) {
        self.scenario.spared_faults.extend(kinds);
    }

    /// The kinds of faults that it meets in an ordeal.
    pub fn kinds(&self, ordeal: &Ordeal) -> Vec<Kind> {
        ordeal.kinds(&self.scenario.spared_faults)
    }

    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Performs the scenario under an ordeal, in virtual time.
    pub fn perform(&self, ordeal: &Ordeal) -> anyhow::Result<Outcome> {
        self.watch(ordeal).outcome
    }

    /// The same, and what the controllers have done meanwhile.
    pub fn watch(&self, ordeal: &Ordeal) -> Performance {
        let mut tally = Tally::default();
        let outcome = self.play(ordeal, &mut tally);
        let outcome = match tally.violations.first() {
            Some(_) => {
                let told: Vec<String> = tally.violations.iter().map(|broken| format!("  {broken}")).collect();
                let end = outcome.err().map_or_else(String::new, |error| format!("\n  {error:#}"));
                Err(anyhow::anyhow!("{} rules broken\n{}{end}", told.len(), told.join("\n")))
            }
            None => outcome,
        };
        Performance { tally, outcome }
    }

    fn play(&self, ordeal: &Ordeal, tally: &mut Tally) -> anyhow::Result<Outcome> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(async {
            let counted = ordeal.faults(&self.scenario.spared_faults);
            let mut backend =
                InProcess::start_under(&self.scenario.api_server, counted.clone(), self.starts()).await?;
            let settings = Settings { patience: PATIENCE, verbose: false };
            let outcome = Run::perform(&mut backend, &self.scenario, settings).await;
            let is_at_rest = outcome.snapshots.last().is_some_and(|last| last.requests.is_empty());
            if outcome.stopped.is_none() && is_at_rest {
                backend.judge_rest(&self.scenario.controllers);
            }
            *tally = backend.tally();
            if let Some(why) = outcome.stopped {
                bail!("did not get through: {why}");
            }
            let mut snapshots = outcome.snapshots;
            let (Some(at_rest), Some(healed)) = (snapshots.pop(), snapshots.pop()) else {
                bail!("the scenario took no snapshots");
            };
            let unrest = (!at_rest.requests.is_empty()).then(|| format!("{:?}", at_rest.requests));
            Ok(Outcome { healed, unrest, writes: counted.writes() })
        })
    }

    /// Tells how two outcomes differ, if they do. Where there is no rest even without faults (a size that the server
    /// refuses is asked for again and again), there is no end to be compared: such runs are judged by the rules alone.
    pub fn compare(calm: &Outcome, other: &Outcome) -> Result<(), String> {
        if calm.unrest.is_some() {
            return Ok(());
        }
        if let Some(writes) = &other.unrest {
            return Err(format!("  not at rest: a controller manager that starts on it writes {writes}"));
        }
        let differences =
            differences(&[end_state(&calm.healed)], &[end_state(&other.healed)], Counts::Relaxed);
        if differences.is_empty() { Ok(()) } else { Err(explain(&differences)) }
    }

    /// How often the scenario itself starts the controller manager; the start after that ends the faults.
    fn starts(&self) -> usize {
        self.scenario.manager_starts() - 2
    }
}
