//! Trials: a golden scenario under faults must end as it does without, and then be at rest.
//!
//! The claim under test is *eventually stable reconciliation*: whatever happened, once faults stop the cluster comes
//! to the same final state, and a controller manager that starts on it writes nothing. The clock of that one stands
//! still: what a schedule asks for in the next minute is no sign of unrest.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::end_state::end_state;
use crate::faults::Faults;
use crate::golden::compare::{Counts, differences};
use crate::golden::embedded::InProcess;
use crate::golden::expected::Snapshot;
use crate::golden::report::explain;
use crate::golden::run::{Run, Settings};
use crate::golden::scenario::Scenario;

/// Appended to every scenario: a fresh controller manager without faults heals what is broken; another one, for which
/// no time passes, finds nothing to do.
const EPILOGUE: &str = "\n- kcm: restart\n- snapshot: {label: healed, quiet: 30}\n- kcm: restart\n- snapshot: {label: at rest, quiet: 30}\n";
/// Steps wait this much longer than usual: faults cost time, and virtual time costs nothing.
const PATIENCE: f64 = 60.0;

/// What goes wrong in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordeal {
    /// Nothing: the run that others are compared with.
    Calm,
    /// Everything, by a seed.
    Seed(u64),
    /// The controller manager dies after its n-th write.
    CrashAfter(u64),
}

/// A scenario that can be tried.
pub struct Trial {
    scenario: Scenario,
}

/// What a trial has shown.
pub struct Outcome {
    /// The state at the end.
    healed: Snapshot,
    /// Writes that reached the server before faults stopped.
    pub writes: u64,
}

impl Trial {
    /// Reads a scenario.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let parsed = Scenario::parse(&(text.trim_end().to_owned() + EPILOGUE));
        let scenario = parsed.map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        Ok(Self { scenario })
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Performs the scenario under an ordeal, in virtual time.
    pub fn perform(&self, ordeal: Ordeal) -> anyhow::Result<Outcome> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(async {
            let faults = match ordeal {
                Ordeal::Calm => None,
                Ordeal::Seed(seed) => Some(Faults::random(seed)),
                Ordeal::CrashAfter(write) => Some(Faults::crash_after(write)),
            };
            let counted = faults.clone().unwrap_or_else(|| Faults::crash_after(u64::MAX));
            let mut backend =
                InProcess::start_under(&self.scenario.api_server, counted.clone(), self.starts()).await?;
            let settings = Settings { patience: PATIENCE, verbose: false };
            let outcome = Run::perform(&mut backend, &self.scenario, settings).await;
            if let Some(why) = outcome.stopped {
                bail!("did not get through: {why}");
            }
            let mut snapshots = outcome.snapshots;
            let (Some(at_rest), Some(healed)) = (snapshots.pop(), snapshots.pop()) else {
                bail!("the scenario took no snapshots");
            };
            if !at_rest.requests.is_empty() {
                bail!("not at rest: a controller manager that starts on it writes {:?}", at_rest.requests);
            }
            Ok(Outcome { healed, writes: counted.writes() })
        })
    }

    /// Tells how two outcomes differ, if they do.
    pub fn compare(calm: &Outcome, other: &Outcome) -> Result<(), String> {
        let differences =
            differences(&[end_state(&calm.healed)], &[end_state(&other.healed)], Counts::Relaxed);
        if differences.is_empty() { Ok(()) } else { Err(explain(&differences)) }
    }

    /// How often the scenario itself starts the controller manager; the start after that ends the faults.
    fn starts(&self) -> usize {
        self.scenario.manager_starts() - 2
    }
}
