//! One round: a fresh cluster, one contender, and what each phase of the load cost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use flyball_sim::api::Api;
use flyball_sim::audit::AuditLog;
use flyball_sim::cluster::{Cluster, Manager, Options, Process, Unavailable, Usage};
use flyball_sim::{load, nodes::Nodes};
use jiff::Timestamp;
use serde::Serialize;
use tokio::time::Instant;

use super::hearts::{self, Hearts};
use super::scenarios::Scenario;
use super::{Contender, Setup};

/// Time for caches and allocators to settle before memory is read.
const REST: Duration = Duration::from_secs(5);
const WATCHES_WITHIN: Duration = Duration::from_secs(120);
/// The controller manager has started when it opened no new watch for this long.
const NO_MORE_WATCHES: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// From the first request of the load until the expected state.
    pub(crate) wall_seconds: f64,
    /// CPU time of the controller manager.
    pub(crate) cpu_seconds: f64,
    /// CPU time of the API server, the load included.
    pub(crate) apiserver_cpu_seconds: f64,
    /// Resident memory of the controller manager some seconds later.
    pub(crate) settled_bytes: u64,
    /// The part of it that is heap and stacks.
    pub(crate) settled_anonymous_bytes: u64,
    /// The part that is mapped from files: mostly the program itself, which the kernel can drop and read again.
    pub(crate) settled_file_bytes: u64,
    /// From the end of the dead leader's lease to the first pod that its successor created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_write_seconds: Option<f64>,
    /// Requests of the controller manager by verb.
    pub(crate) requests: BTreeMap<String, u64>,
}

/// The measurements of one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) phases: Vec<Phase>,
    /// The most memory that the controller manager ever had.
    pub(crate) peak_bytes: u64,
}

impl Round {
    pub(crate) fn summary(&self) -> String {
        let phases = self.phases.iter().map(|p| {
            let first = p.first_write_seconds;
            let first = first
                .map_or_else(String::new, |s| format!(", first write {:.0} ms after expiry", s * 1000.0));
            format!(
                "{} {:.1} s wall, {:.2} s CPU, {} MiB ({} anonymous){first}",
                p.name,
                p.wall_seconds,
                p.cpu_seconds,
                p.settled_bytes >> 20,
                p.settled_anonymous_bytes >> 20,
            )
        });
        phases.collect::<Vec<_>>().join("; ")
    }
}

pub(crate) struct Bench<'a> {
    manager: Option<Process>,
    cluster: Cluster,
    log: AuditLog,
    setup: &'a Setup,
    scenario: Scenario,
    contender: Contender,
    phases: Vec<Phase>,
    peak: u64,
    lease_end: Option<Timestamp>,
    pub(crate) api: Arc<Api>,
}

impl<'a> Bench<'a> {
    pub(crate) async fn start(
        scenario: Scenario,
        setup: &'a Setup,
        contender: Contender,
    ) -> anyhow::Result<Self> {
        let options = Options { audit_reads: true, ..Options::default() };
        let cluster = Cluster::real(options).await.map_err(|e| match e {
            Unavailable::Skip(skip) => anyhow::anyhow!("{skip}"),
            Unavailable::Broken(e) => e,
        })?;
        let api = cluster.api().await?;
        load::create_namespace(&api).await?;
        let log = cluster.audit_log();
        Ok(Self {
            manager: None,
            cluster,
            log,
            setup,
            scenario,
            contender,
            phases: Vec::new(),
            peak: 0,
            lease_end: None,
            api,
        })
    }

    /// Starts the contender; does not wait for it.
    pub(crate) fn launch(&self, name: &str, leader_elect: bool) -> anyhow::Result<Process> {
        let controllers = &self.setup.controllers;
        let pace =
            [format!("--kube-api-qps={}", self.setup.qps), format!("--kube-api-burst={}", self.setup.burst)];
        let own = self.scenario.flags().iter().map(|&flag| flag.to_owned());
        let flags: Vec<String> = pace.into_iter().chain(own).collect();
        let binary = self.setup.program(self.contender)?;
        self.cluster.start_manager(name, &Manager { binary, controllers, leader_elect, flags: &flags })
    }

    /// Measures `process` from now on.
    pub(crate) fn watch_over(&mut self, process: Process) {
        self.note_peak();
        self.manager = Some(process);
    }

    /// Starts the contender and waits until it watches.
    pub(crate) async fn start_manager(&mut self) -> anyhow::Result<()> {
        self.log.read()?;
        let process = self.launch("kube-controller-manager", false)?;
        self.watch_over(process);
        self.until_watching().await
    }

    async fn until_watching(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut last = None;
        while last.is_none_or(|last: Instant| last.elapsed() < NO_MORE_WATCHES) {
            self.check_alive()?;
            anyhow::ensure!(start.elapsed() < WATCHES_WITHIN, "{} opened no watch", self.contender.name());
            tokio::time::sleep(Duration::from_millis(100)).await;
            if self.log.read()?.iter().any(|entry| entry.verb == "watch" && entry.by_manager()) {
                last = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// A node that runs the pods of the load's namespace, until dropped.
    pub(crate) async fn nodes(&self) -> anyhow::Result<(Hearts, Nodes)> {
        let only = 1;
        let hearts = hearts::join(&self.api, only..only + 1).await?;
        let (client, api) = (Arc::clone(self.cluster.client()), Arc::clone(&self.api));
        Ok((hearts, Nodes::start_on(vec![hearts::name(only)], client, api, load::NAMESPACE)))
    }

    fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.manager.as_mut().and_then(Process::ended) {
            Some(status) => anyhow::bail!("{} ended with {status}", self.contender.name()),
            None => Ok(()),
        }
    }

    fn usage(&self) -> Usage {
        self.manager.as_ref().and_then(|process| Usage::of(process.id())).unwrap_or_default()
    }

    fn note_peak(&mut self) {
        self.peak = self.peak.max(self.usage().peak);
    }

    /// Measures what the controller manager does while `work` runs.
    pub(crate) async fn measure(
        &mut self,
        name: &'static str,
        work: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        self.log.read()?;
        let before = Mark { manager: self.usage(), apiserver: self.apiserver()?, at: Instant::now() };
        work.await?;
        self.record(name, &before).await
    }

    /// Makes the next phase measure how long after this call the first pod is created.
    pub(crate) fn lease_ends(&mut self, at: Timestamp) {
        self.lease_end = Some(at);
    }

    /// Begins a phase for a process that is yet to be started.
    pub(crate) fn mark(&mut self) -> anyhow::Result<Mark> {
        self.log.read()?;
        Ok(Mark { manager: Usage::default(), apiserver: self.apiserver()?, at: Instant::now() })
    }

    /// Closes a phase that began at `before`.
    pub(crate) async fn record(&mut self, name: &'static str, before: &Mark) -> anyhow::Result<()> {
        let wall_seconds = before.at.elapsed().as_secs_f64();
        let (manager, apiserver) = (self.usage(), self.apiserver()?);
        self.check_alive()?;
        let mut requests = BTreeMap::new();
        let mut created = None;
        for entry in self.log.read()?.into_iter().filter(|entry| entry.by_manager()) {
            if entry.is_write() && entry.verb == "create" && entry.resource == "pods" {
                created = created.or(entry.received);
            }
            // A watch is answered when it begins and again when it ends.
            let stage = if entry.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
            if entry.stage == stage {
                *requests.entry(entry.verb).or_default() += 1;
            }
        }
        tokio::time::sleep(REST).await;
        let settled = self.usage();
        self.phases.push(Phase {
            name,
            wall_seconds,
            cpu_seconds: manager.cpu.saturating_sub(before.manager.cpu).as_secs_f64(),
            apiserver_cpu_seconds: apiserver.cpu.saturating_sub(before.apiserver.cpu).as_secs_f64(),
            settled_bytes: settled.resident,
            settled_anonymous_bytes: settled.anonymous,
            settled_file_bytes: settled.file,
            first_write_seconds: self
                .lease_end
                .take()
                .zip(created)
                .map(|(end, created)| created.duration_since(end).as_secs_f64()),
            requests,
        });
        Ok(())
    }

    fn apiserver(&self) -> anyhow::Result<Usage> {
        self.cluster.apiserver_usage().context("the API server ended")
    }

    pub(crate) async fn stop_manager(&mut self) -> anyhow::Result<()> {
        self.note_peak();
        if let Some(mut process) = self.manager.take() {
            process.stop(Duration::from_secs(30)).await?;
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> anyhow::Result<Round> {
        self.stop_manager().await?;
        Ok(Round { phases: self.phases, peak_bytes: self.peak })
    }

    pub(crate) fn keep_logs(&mut self) {
        self.cluster.keep_logs();
    }
}

/// The counters when a phase begins.
pub(crate) struct Mark {
    manager: Usage,
    apiserver: Usage,
    at: Instant,
}
