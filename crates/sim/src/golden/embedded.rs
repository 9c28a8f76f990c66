//! Scenarios on the embedded server with our controller manager in the same process. With tokio's clock paused, minutes take
//! milliseconds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flyball_api::{Key, ResourceVersion};
use flyball_apiserver::Record;
use flyball_cloud::simulated::Simulated;
use flyball_runtime::Chain;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::time::Instant;

use super::StepError;
use super::backend::{Backend, ClusterObject, cluster_objects, write_cloud};
use super::clock::Clock;
use crate::api::{Api, Error, Resource};
use crate::audit::Entry;
use crate::embedded::{Embedded, RunningManager};
use crate::faults::Faults;
use crate::features::Features;
use crate::invariants::{Findings, RuleChecker};

/// A controller manager counts as started when it has opened watches and then none for this long.
const NO_MORE_WATCHES: Duration = Duration::from_millis(800);
/// Faults may delay that for long; in virtual time waiting costs nothing.
const STARTED_WITHIN: Duration = Duration::from_secs(3600);
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// Includes delayed and broken watches.
const SEEN_WITHIN: Duration = Duration::from_secs(120);
/// How often it is checked whether a restore was noticed.
const LOOK: Duration = Duration::from_millis(100);
/// After a controller manager has noticed a restore, it corrects what it has reported before.
const CORRECTED_WITHIN: Duration = Duration::from_secs(3);
/// Every run begins at the same time, so that it can be repeated.
const START: &str = "2026-06-01T12:00:00Z";
const SEED: u64 = 7;
/// The cluster has only one scenario.
const NAMESPACE: &str = "g00000001";
const CLOUD_FILE: &str = "cloud.yaml";

/// A cluster of its own for one scenario.
pub struct InProcess {
    cluster: Embedded,
    api: Arc<Api>,
    baseline: BTreeSet<ClusterObject>,
    kcm: Option<RunningManager>,
    unread: Vec<Entry>,
    fault_plan: Option<FaultPlan>,
    cloud: Option<CloudInFile>,
    /// The number of restores that the controller manager has noticed.
    noticed: AtomicU64,
}

/// A simulated cloud, which outlives controller managers, and its file.
struct CloudInFile {
    folder: TempDir,
    simulated: Simulated,
}

/// Faults, and for how many starts of the controller manager they last.
struct FaultPlan {
    faults: Arc<Faults>,
    checker: Arc<RuleChecker>,
    starts_left: usize,
}

impl InProcess {
    pub async fn start(features: &Features) -> anyhow::Result<Self> {
        let cluster = Embedded::start(START.parse::<Timestamp>()?, SEED, features)?;
        let api = Arc::new(Api::discover(cluster.client()).await?);
        let baseline = cluster_objects(&api).await?.into_iter().map(|(key, _)| key).collect();
        let (unread, noticed) = (Vec::new(), AtomicU64::new(0));
        Ok(Self { cluster, api, baseline, kcm: None, unread, fault_plan: None, cloud: None, noticed })
    }

    /// A new cluster with faults, which end with the start of the controller manager after `starts` others. A manager that is
    /// started after that has a stopped clock.
    pub async fn start_under(
        features: &Features,
        faults: Arc<Faults>,
        starts: usize,
    ) -> anyhow::Result<Self> {
        let mut new = Self::start(features).await?;
        let checker = new.cluster.check_rules();
        new.cluster.put_faults(faults.clone());
        new.fault_plan = Some(FaultPlan { faults, checker, starts_left: starts });
        Ok(new)
    }

    /// Checks the cluster once it is at rest, for these controllers.
    pub fn judge_rest(&self, controllers: &[String]) {
        if let Some(fault_plan) = &self.fault_plan {
            fault_plan.checker.judge_rest(controllers);
        }
    }

    /// What checks the rules under faults.
    pub fn checker(&self) -> Option<Arc<RuleChecker>> {
        self.fault_plan.as_ref().map(|fault_plan| Arc::clone(&fault_plan.checker))
    }

    /// The writes of the controllers under faults, and the violations.
    pub fn findings(&self) -> Findings {
        self.fault_plan.as_ref().map(|fault_plan| fault_plan.checker.findings()).unwrap_or_default()
    }

    /// All requests so far, whoever made them.
    pub fn history(&self) -> Vec<Arc<Record>> {
        self.cluster.history()
    }

    /// The text of the controller manager's `/metrics`; empty while none runs.
    pub fn metrics(&self) -> String {
        self.kcm.as_ref().map_or_else(String::new, RunningManager::metrics)
    }
}

impl Backend for InProcess {
    fn api(&self) -> &Arc<Api> {
        &self.api
    }

    fn clock(&self) -> Clock {
        self.cluster.clock()
    }

    fn fresh_namespace(&self) -> String {
        NAMESPACE.to_owned()
    }

    fn baseline(&self) -> &BTreeSet<ClusterObject> {
        &self.baseline
    }

    fn set_cloud(&mut self, cloud: &Map<String, Value>) -> Result<(), StepError> {
        if let Some(present) = &self.cloud {
            return write_cloud(&present.folder.path().join(CLOUD_FILE), cloud);
        }
        let folder = tempfile::tempdir().map_err(|e| StepError::failed(format!("make a folder: {e}")))?;
        let file = folder.path().join(CLOUD_FILE);
        write_cloud(&file, cloud)?;
        let opened = Simulated::from_file(&file);
        let simulated = opened.map_err(|e| StepError::failed(Chain(&e).to_string()))?;
        self.cloud = Some(CloudInFile { folder, simulated });
        Ok(())
    }

    async fn start_kcm(&mut self, controllers: &[String], flags: &[String]) -> Result<(), StepError> {
        self.stop_kcm().await;
        if let Some(fault_plan) = &mut self.fault_plan {
            match fault_plan.starts_left.checked_sub(1) {
                Some(left) => fault_plan.starts_left = left,
                None if fault_plan.faults.have_ended() => self.cluster.stop_managers_clocks(),
                None => fault_plan.faults.end(),
            }
        }
        let started = match &self.cloud {
            Some(cloud) => self.cluster.start_cloud_manager(cloud.simulated.cloud(), controllers, flags),
            None => self.cluster.start_manager(controllers, flags),
        };
        self.kcm = Some(started.map_err(|e| StepError::failed(format!("{e:#}")))?);
        let start = Instant::now();
        let mut last = None;
        while start.elapsed() < STARTED_WITHIN {
            if let Some(how) = self.kcm_ended() {
                return Err(StepError::Failed(how));
            }
            let entries = self.cluster.audit();
            if entries.iter().any(|entry| entry.verb == "watch" && entry.by_manager()) {
                last = Some(Instant::now());
            }
            self.unread.extend(entries);
            if last.is_some_and(|last| last.elapsed() > NO_MORE_WATCHES) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(StepError::failed("the controller manager opened no watch in time"))
    }

    async fn stop_kcm(&mut self) {
        if let Some(kcm) = self.kcm.take() {
            kcm.stop(STOPPED_WITHIN).await;
        }
    }

    fn kcm_ended(&mut self) -> Option<String> {
        let ended = self.kcm.as_ref().is_some_and(RunningManager::has_ended);
        ended.then(|| "the controller manager ended".to_owned())
    }

    async fn seen(&self, resource: &Resource, version: ResourceVersion) {
        if let (Some(kcm), Some(_)) = (&self.kcm, &self.fault_plan) {
            let _ = tokio::time::timeout(SEEN_WITHIN, kcm.seen(&resource.as_type(), version)).await;
        }
    }

    async fn lost_sight(&self, resource: &Resource, key: &Key) {
        let (Some(kcm), Some(_)) = (&self.kcm, &self.fault_plan) else { return };
        let (resource, gone) = (resource.as_type(), ResourceVersion(self.cluster.version()));
        let start = Instant::now();
        // One with a later version is another object of that name.
        while kcm.holds(&resource, key).is_some_and(|held| held <= gone) && start.elapsed() < SEEN_WITHIN {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn idle(&self, within: Duration) -> bool {
        let Some(kcm) = self.kcm.as_ref().filter(|_| self.fault_plan.is_some()) else { return false };
        let start = Instant::now();
        while !kcm.is_idle() && start.elapsed() < within {
            tokio::time::sleep(LOOK).await;
        }
        !start.elapsed().is_zero()
    }

    async fn restore_noticed(&self) -> bool {
        let mut has_waited = false;
        while self.noticed.load(Ordering::Relaxed) != self.cluster.restores() {
            let restores = self.cluster.restores();
            self.cluster.up().await;
            let start = Instant::now();
            while self.kcm.as_ref().is_some_and(|kcm| !kcm.has_noticed_restores())
                && start.elapsed() < SEEN_WITHIN
            {
                tokio::time::sleep(LOOK).await;
            }
            tokio::time::sleep(CORRECTED_WITHIN).await;
            self.noticed.store(restores, Ordering::Relaxed);
            has_waited = true;
        }
        has_waited
    }

    fn may_lose_events(&self) -> bool {
        self.fault_plan.as_ref().is_some_and(|fault_plan| fault_plan.faults.have_struck())
    }

    fn audit(&mut self) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.unread);
        entries.extend(self.cluster.audit());
        entries
    }

    async fn clean(&mut self, _tracked: &[String]) -> Result<(), Error> {
        Ok(()) // the next scenario gets a cluster of its own
    }
}
