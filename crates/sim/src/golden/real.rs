//! Scenarios on a real control plane, with a controller manager in its own process: upstream's or ours.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::StepError;
use super::backend::{Backend, ClusterObject, cluster_objects, write_cloud};
use super::cleanup;
use super::clock::Clock;
use super::encodings::Encodings;
use crate::api::{Api, Error};
use crate::audit::{AuditLog, Entry};
use crate::cluster::{Cluster, Manager, Options, Process, Unavailable};
use crate::features::Features;

/// A controller manager counts as started when it has opened watches and then none for this long.
const NO_MORE_WATCHES: Duration = Duration::from_millis(800);
const AT_LEAST: Duration = Duration::from_millis(1500);
const STARTED_WITHIN: Duration = Duration::from_secs(60);
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// The programs under test.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    pub kube: PathBuf,
    /// For scenarios with a cloud.
    pub cloud: PathBuf,
}

/// A cluster with its audit log, and the programs under test.
pub struct Real {
    // Dropped before the cluster that it talks to.
    kcm: Option<Process>,
    cluster: Cluster,
    programs: Programs,
    /// The file of the simulated cloud, if the scenario has one.
    cloud: Option<PathBuf>,
    api: Arc<Api>,
    clock: Clock,
    baseline: BTreeSet<ClusterObject>,
    log: AuditLog,
    encodings: Encodings,
    unread: Vec<Entry>,
    patience: f64,
}

impl Real {
    /// Starts a cluster. `patience` multiplies waiting times, for slow machines.
    pub async fn start(programs: Programs, patience: f64, features: Features) -> Result<Self, Unavailable> {
        let cluster = Cluster::real(Options { features, audit_reads: true, ..Options::default() }).await?;
        Self::over(cluster, programs, patience).await.map_err(Unavailable::Broken)
    }

    async fn over(cluster: Cluster, programs: Programs, patience: f64) -> anyhow::Result<Self> {
        let api = cluster.api().await?;
        let baseline = settled_objects(&api).await.context("list what a new cluster has")?;
        let log = cluster.audit_log();
        let encodings = Encodings::of(&cluster).await.context("connect to compare encodings")?;
        let clock = Clock::starting_at(Timestamp::now());
        Ok(Self {
            kcm: None,
            cluster,
            programs,
            cloud: None,
            api,
            clock,
            baseline,
            log,
            encodings,
            unread: Vec::new(),
            patience,
        })
    }

    /// Keeps the logs of the cluster and of the controller manager when this is dropped.
    pub fn keep_logs(&mut self) {
        self.cluster.keep_logs();
    }

    /// How many objects have been compared in both encodings.
    pub fn compared(&self) -> usize {
        self.encodings.compared()
    }

    fn read_log(&mut self) -> Vec<Entry> {
        // An unreadable log shows as missing requests.
        self.log.read().unwrap_or_default()
    }

    async fn until_it_watches(&mut self) -> Result<(), StepError> {
        let start = Instant::now();
        let mut last = None;
        while start.elapsed() < STARTED_WITHIN.mul_f64(self.patience) {
            if let Some(how) = self.kcm_ended() {
                return Err(StepError::Failed(how));
            }
            let entries = self.read_log();
            if entries.iter().any(|entry| entry.verb == "watch" && entry.by_manager()) {
                last = Some(Instant::now());
            }
            self.unread.extend(entries);
            if last.is_some_and(|last| last.elapsed() > NO_MORE_WATCHES) && start.elapsed() > AT_LEAST {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(StepError::failed("the controller manager opened no watch in time"))
    }
}

/// The API server writes bootstrap objects for a while after its start: returns the objects when two lists in a row agree.
async fn settled_objects(api: &Api) -> Result<BTreeSet<ClusterObject>, Error> {
    let look =
        || async { Ok::<_, Error>(cluster_objects(api).await?.into_iter().map(|(key, _)| key).collect()) };
    let mut before: BTreeSet<ClusterObject> = look().await?;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let now = look().await?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
    Ok(before)
}

impl Backend for Real {
    fn api(&self) -> &Arc<Api> {
        &self.api
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn baseline(&self) -> &BTreeSet<ClusterObject> {
        &self.baseline
    }

    fn set_cloud(&mut self, cloud: &Map<String, Value>) -> Result<(), StepError> {
        let file = self.cluster.dir().join("cloud.yaml");
        write_cloud(&file, cloud)?;
        self.cloud = Some(file);
        Ok(())
    }

    async fn start_kcm(&mut self, controllers: &[String], flags: &[String]) -> Result<(), StepError> {
        self.stop_kcm().await;
        let entries = self.read_log();
        self.unread.extend(entries);
        let started = match &self.cloud {
            Some(file) => {
                let own =
                    ["--cloud-provider=simulated".to_owned(), format!("--cloud-config={}", file.display())];
                let flags: Vec<String> = own.into_iter().chain(flags.iter().cloned()).collect();
                let binary = &self.programs.cloud;
                let manager = Manager { binary, controllers, leader_elect: false, flags: &flags };
                self.cluster.start_cloud_manager(&manager)
            }
            None => {
                let manager =
                    Manager { binary: &self.programs.kube, controllers, leader_elect: false, flags };
                self.cluster.start_manager("kube-controller-manager", &manager)
            }
        };
        self.kcm = Some(started.map_err(|e| StepError::failed(format!("{e:#}")))?);
        self.until_it_watches().await
    }

    async fn stop_kcm(&mut self) {
        if let Some(mut kcm) = self.kcm.take() {
            // Whether it exited by itself or was killed makes no difference to the scenario.
            let _ = kcm.stop(STOPPED_WITHIN).await;
        }
    }

    fn kcm_ended(&mut self) -> Option<String> {
        let kcm = self.kcm.as_mut()?;
        let status = kcm.ended()?;
        let tail = last_lines(kcm.log(), 8);
        self.kcm = None;
        Some(format!("the controller manager ended with {status}; its last words:\n{tail}"))
    }

    fn audit(&mut self) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.unread);
        entries.extend(self.read_log());
        entries
    }

    /// Every object is the same in protobuf and in JSON.
    async fn inspect(&self) -> Result<(), StepError> {
        let checked = self.encodings.check(&self.api).await;
        checked.map_err(|error| StepError::failed(format!("protobuf and JSON differ: {error:#}")))
    }

    async fn clean(&mut self, tracked: &[String]) -> Result<(), Error> {
        self.cloud = None;
        cleanup::clean(&self.api, &self.baseline, tracked).await?;
        self.audit();
        Ok(())
    }
}

fn last_lines(log: &std::path::Path, count: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(count)..];
    tail.iter().map(|line| format!("      {line}")).collect::<Vec<_>>().join("\n")
}
