//! Trials: a golden scenario under faults must end as it does without, and then be at rest.
//!
//! The property under test is *eventually stable reconciliation*: whatever happened, once faults stop the cluster comes to the
//! same final state, and a controller manager that starts on it writes nothing. The clock of that manager is stopped, so that
//! schedules do not become due. Meanwhile every single write is checked by the [rules](crate::invariants).

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use flyball_apiserver::Record;

use crate::end_state::end_state;
use crate::faults::{Faults, Kind, Safeguard};
use crate::golden::compare::{Counts, differences};
use crate::golden::embedded::InProcess;
use crate::golden::expected::Snapshot;
use crate::golden::report::explain;
use crate::golden::run::{Run, Settings};
use crate::golden::scenario::Scenario;
use crate::invariants::Findings;

/// Appended to every scenario: a new controller manager without faults repairs what is broken; another one, with a stopped
/// clock, must find nothing to do.
const EPILOGUE: &str = "\n- kcm: restart\n- snapshot: {label: healed, quiet: 30}\n- kcm: restart\n- snapshot: {label: at rest, quiet: 30}\n";
/// Factor for the timeouts of steps: faults take time, and virtual time costs nothing.
const PATIENCE: f64 = 60.0;

/// The faults of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultPlan {
    /// No faults: the baseline of the comparison.
    None,
    Seed(u64),
    /// These kinds of faults only, with a seed.
    Only(Vec<Kind>, u64),
    /// The controller manager crashes after its n-th write.
    CrashAfter(u64),
}

impl FaultPlan {
    fn faults(&self, spared: &[Kind]) -> Arc<Faults> {
        match self {
            Self::None => Faults::crash_after(u64::MAX),
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

pub struct TrialReport {
    /// The writes of the controllers, and the violations.
    pub findings: Findings,
    /// The end, or why it was not reached. A violation is a failure, too.
    pub outcome: anyhow::Result<Outcome>,
    /// All requests, whoever made them.
    pub history: History,
}

/// The requests of a run. The same scenario under the same faults has the same.
#[derive(Default)]
pub struct History(Vec<Arc<Record>>);

impl History {
    /// The first request in which two runs differ, as text, if any.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let longer = self.0.len().max(other.0.len());
        let n = (0..longer).find(|n| self.line(*n) != other.line(*n))?;
        let show = |history: &Self| history.line(n).unwrap_or_else(|| "no request".to_owned());
        Some(format!("request {n} of {longer}: {}, and then {}", show(self), show(other)))
    }

    /// All requests as text.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        (0..self.0.len()).map_while(|n| self.line(n))
    }

    fn line(&self, n: usize) -> Option<String> {
        let Record { at, verb, uri, user, code, .. } = &**self.0.get(n)?;
        Some(format!("{at} {user} {verb} {uri} {code}"))
    }
}

/// A scenario to be run under faults.
pub struct Trial {
    scenario: Scenario,
    missing: Option<Safeguard>,
}

/// The end of a trial.
pub struct Outcome {
    /// The state after faults have stopped and the cluster has come to rest.
    healed: Snapshot,
    /// The writes of a controller manager that is started on the final state; there should be none.
    unrest: Option<String>,
    /// Writes that reached the server before faults stopped.
    pub writes: u64,
}

impl Trial {
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let parsed = Scenario::parse(&(text.trim_end().to_owned() + EPILOGUE));
        let scenario = parsed.map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        Ok(Self { scenario, missing: None })
    }

    /// Excludes some kinds of faults.
    pub fn spare(&mut self, kinds: &[Kind]) {
        self.scenario.spared_faults.extend(kinds);
    }

    /// Takes a safeguard away from the controller managers: then rules must be broken.
    pub fn take_away(&mut self, safeguard: Safeguard) {
        self.missing = Some(safeguard);
    }

    /// The kinds of faults that it has under a plan.
    pub fn kinds(&self, fault_plan: &FaultPlan) -> Vec<Kind> {
        fault_plan.kinds(&self.scenario.spared_faults)
    }

    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The outcome of [`run`](Self::run).
    pub fn outcome(&self, fault_plan: &FaultPlan) -> anyhow::Result<Outcome> {
        self.run(fault_plan).outcome
    }

    /// Runs the scenario under faults, in virtual time.
    pub fn run(&self, fault_plan: &FaultPlan) -> TrialReport {
        let (mut findings, mut history) = (Findings::default(), History::default());
        let outcome = self.run_scenario(fault_plan, &mut findings, &mut history);
        let outcome = match findings.violations.first() {
            Some(_) => {
                let violations: Vec<String> =
                    findings.violations.iter().map(|broken| format!("  {broken}")).collect();
                let end = outcome.err().map_or_else(String::new, |error| format!("\n  {error:#}"));
                Err(anyhow::anyhow!("{} rules broken\n{}{end}", violations.len(), violations.join("\n")))
            }
            None => outcome,
        };
        TrialReport { findings, outcome, history }
    }

    fn run_scenario(
        &self,
        fault_plan: &FaultPlan,
        findings: &mut Findings,
        history: &mut History,
    ) -> anyhow::Result<Outcome> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let mut checker = None;
        let outcome = runtime.block_on(async {
            let counted = fault_plan.faults(&self.scenario.spared_faults);
            self.missing.into_iter().for_each(|safeguard| counted.take_away(safeguard));
            let mut backend =
                InProcess::start_under(&self.scenario.api_server, counted.clone(), self.starts()).await?;
            checker = backend.checker();
            let settings = Settings { patience: PATIENCE, verbose: false, check_reads: true };
            let outcome = Run::perform(&mut backend, &self.scenario, settings).await;
            let is_at_rest = outcome.snapshots.last().is_some_and(|last| last.requests.is_empty());
            if outcome.stopped.is_none() && is_at_rest {
                backend.judge_rest(&self.scenario.controllers);
            }
            *findings = backend.findings();
            *history = History(backend.history());
            if let Some(why) = outcome.stopped {
                bail!("did not get through: {why}");
            }
            let mut snapshots = outcome.snapshots;
            let (Some(at_rest), Some(healed)) = (snapshots.pop(), snapshots.pop()) else {
                bail!("the scenario took no snapshots");
            };
            let unrest = (!at_rest.requests.is_empty()).then(|| format!("{:?}", at_rest.requests));
            Ok(Outcome { healed, unrest, writes: counted.writes() })
        });
        drop(runtime);
        if checker.is_some_and(|checker| checker.is_outlived()) {
            bail!("a controller's context has outlived its manager, so its memory is never freed");
        }
        outcome
    }

    /// The differences between two outcomes, if any. If the cluster does not come to rest even without faults (a scale request
    /// that the server refuses is repeated for ever), there is no final state: such runs are only checked by the rules.
    pub fn compare(baseline: &Outcome, other: &Outcome) -> Result<(), String> {
        if baseline.unrest.is_some() {
            return Ok(());
        }
        if let Some(writes) = &other.unrest {
            return Err(format!("  not at rest: a controller manager that starts on it writes {writes}"));
        }
        let differences =
            differences(&[end_state(&baseline.healed)], &[end_state(&other.healed)], Counts::Relaxed);
        if differences.is_empty() { Ok(()) } else { Err(explain(&differences)) }
    }

    /// How often the scenario itself starts the controller manager; the start after that ends the faults.
    fn starts(&self) -> usize {
        self.scenario.manager_starts() - 2
    }
}
