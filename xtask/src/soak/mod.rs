//! `cargo xtask soak`: a real control plane under load. Its controller manager is killed every few seconds, its API server
//! and etcd now and then. A ledger records what should exist; the cluster must match it at the end, and some rules must hold
//! all the time.

mod fault;
mod ledger;
mod machines;
mod managers;
mod observers;
mod shared;
mod users;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_sim::cluster::{Cluster, Options as ClusterOptions, Unavailable};
use flyball_sim::ours::{self, Profile};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use fault::{Fault, Frequencies, schedule};
use ledger::{Ledger, left_behind, torn_bindings};
use managers::Managers;
use shared::Shared;

/// How long the cluster may take to come to rest after the last fault.
const REST_WITHIN: Duration = Duration::from_secs(300);
/// At rest: no write for this long.
const QUIET: Duration = Duration::from_secs(10);
/// Resources in which objects may be left behind.
const KINDS: [&str; 13] = [
    "deployments",
    "replicasets",
    "statefulsets",
    "controllerrevisions",
    "jobs",
    "pods",
    "services",
    "endpoints",
    "endpointslices",
    "persistentvolumeclaims",
    "persistentvolumes",
    "volumeattachments",
    "namespaces",
];

/// `cargo xtask soak`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Duration of the faults in minutes
    #[arg(long, default_value_t = 10, value_name = "N")]
    minutes: u64,
    /// How often the controller manager is killed [default: 21 times a minute; with a standby, twice]
    #[arg(long, value_name = "N")]
    kills: Option<usize>,
    /// Two controller managers under leader election, with a short lease: the leader is killed, or stopped for longer than its lease
    #[arg(long)]
    standby: bool,
    /// How often the leader is stopped and continued [default with a standby: once a minute]
    #[arg(long, value_name = "N", requires = "standby")]
    freezes: Option<usize>,
    /// How often the API server is restarted; every other time it is killed [default: once a minute]
    #[arg(long, value_name = "N")]
    apiserver_restarts: Option<usize>,
    /// How often etcd is killed and restarted
    #[arg(long, default_value_t = 1, value_name = "N")]
    etcd_restarts: usize,
    /// Seed of the schedule and of the users' choices
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    seed: u64,
    /// The controller manager [default: ours, built in release mode]
    #[arg(long, value_name = "PATH")]
    kcm: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let binary = match &options.kcm {
        Some(path) => path.canonicalize().with_context(|| format!("find {}", path.display()))?,
        None => ours::binary(Profile::Release)?,
    };
    let minutes = usize::try_from(options.minutes).unwrap_or(usize::MAX);
    let frequencies = Frequencies {
        length: Duration::from_secs(options.minutes * 60),
        kills: options.kills.unwrap_or(minutes * if options.standby { 2 } else { 21 }),
        freezes: options.freezes.unwrap_or(if options.standby { minutes } else { 0 }),
        apiserver_restarts: options.apiserver_restarts.unwrap_or(minutes),
        etcd_restarts: options.etcd_restarts,
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("make a runtime")?;
    let violations =
        runtime.block_on(soak(frequencies, options.seed, Managers::new(binary, options.standby)))?;
    Ok(if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the number of violations.
async fn soak(frequencies: Frequencies, seed: u64, managers: Managers) -> anyhow::Result<usize> {
    let cluster = Cluster::real(ClusterOptions::default()).await.map_err(|e| match e {
        Unavailable::Skip(skip) => anyhow::anyhow!("{skip}"),
        Unavailable::Broken(e) => e,
    })?;
    println!(
        "{} minutes, seed {seed}; logs are in {}",
        frequencies.length.as_secs() / 60,
        cluster.dir().display()
    );
    let began = Instant::now();
    let ledger = Arc::new(Ledger::default());
    let shared = Shared {
        api: cluster.api().await?,
        client: Arc::clone(cluster.client()),
        ledger: Arc::clone(&ledger),
        until: began + frequencies.length,
    };
    let mut background = JoinSet::new();
    background.spawn(machines::nodes(shared.clone()));
    background.spawn(machines::attacher(shared.clone()));
    background.spawn(observers::pods(shared.clone()));
    background.spawn(observers::attachments(shared.clone()));
    let mut users = JoinSet::new();
    let random = |n: u64| StdRng::seed_from_u64(seed.wrapping_mul(1000) + n);
    users.spawn(users::deployments(shared.clone(), random(1)));
    users.spawn(users::jobs(shared.clone(), random(2)));
    users.spawn(users::stateful_sets(shared.clone(), random(3)));
    users.spawn(users::namespaces(shared.clone(), random(4)));

    let mut rig = Rig { cluster, managers };
    rig.managers.start(&rig.cluster)?;
    for (at, fault) in schedule(frequencies, seed) {
        tokio::time::sleep_until(began + at).await;
        rig.make(fault, &ledger).await?;
        if fault != Fault::KillManager || rig.managers.deaths.is_multiple_of(20) {
            println!("[{:>4} s] {fault:?}; so far {:?}", began.elapsed().as_secs(), ledger.counts());
        }
    }
    let kubelets = users.join_all().await;
    let settled = settle(&shared, &mut rig);
    let found = tokio::select! {
        found = settled => found?,
        Some(ended) = background.join_next() => bail!("a machine or observer ended: {ended:?}"),
    };
    for violation in found {
        ledger.violation(violation);
    }
    report(&ledger, began);
    let violations = ledger.violations().len();
    if violations > 0 {
        rig.cluster.keep_logs();
    }
    drop(kubelets);
    Ok(violations)
}

/// The control plane and its processes.
struct Rig {
    cluster: Cluster,
    managers: Managers,
}

impl Rig {
    async fn make(&mut self, fault: Fault, ledger: &Ledger) -> anyhow::Result<()> {
        match fault {
            Fault::KillManager => self.managers.kill(&self.cluster, ledger),
            Fault::FreezeLeader => self.managers.freeze(&self.cluster, ledger).await,
            Fault::RestartApiServer => {
                self.cluster.stop_apiserver().await?;
                ledger.count("API server restarts");
                self.cluster.start_apiserver().await
            }
            Fault::KillApiServer => {
                self.cluster.kill_apiserver();
                ledger.count("API server restarts");
                self.cluster.start_apiserver().await
            }
            Fault::KillEtcd => {
                self.cluster.kill_etcd();
                ledger.count("etcd restarts");
                self.cluster.start_etcd()?;
                self.cluster.until_ready().await
            }
        }
    }
}

/// Waits until the cluster matches the ledger and there are no more writes. Returns the remaining differences.
async fn settle(shared: &Shared, rig: &mut Rig) -> anyhow::Result<Vec<String>> {
    println!("no more faults; waiting for the cluster to come to rest");
    let began = Instant::now();
    let mut log = rig.cluster.audit_log();
    log.read()?;
    let mut written = Instant::now();
    loop {
        rig.managers.keep_running(&rig.cluster, &shared.ledger)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let is_work = |resource: &str| !matches!(resource, "events" | "leases" | "serviceaccounts");
        let mut writes =
            log.read()?.into_iter().filter(|e| e.is_write() && e.by_manager() && is_work(&e.resource));
        let last = writes.next_back();
        if last.is_some() {
            written = Instant::now();
        }
        let waited = began.elapsed() > REST_WITHIN;
        if written.elapsed() >= QUIET || waited {
            let wrong = wrong(shared).await;
            if wrong.is_empty() && written.elapsed() >= QUIET {
                println!("at rest after {} s", began.elapsed().as_secs());
                return Ok(vec![]);
            }
            if waited {
                let unrest =
                    last.map(|entry| format!("no rest: {} still writes {}", entry.actor(), entry.resource));
                return Ok(wrong.into_iter().chain(unrest).collect());
            }
        }
    }
}

/// The differences between the cluster and the ledger.
async fn wrong(shared: &Shared) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, wanted) in shared.ledger.wanted() {
        let found = shared.get(&path).await;
        wrong.extend(wanted.missing(found.as_ref()).map(|missing| format!("{path} {missing}")));
    }
    let mut objects: Vec<Value> = Vec::new();
    for kind in KINDS {
        objects.extend(shared.list(kind).await);
    }
    wrong.extend(left_behind(&objects));
    wrong.extend(torn_bindings(&objects));
    wrong
}

fn report(ledger: &Ledger, began: Instant) {
    println!("\n{:<28} {:>8}", "after", format!("{} s", began.elapsed().as_secs()));
    for (what, count) in ledger.counts() {
        println!("{what:<28} {count:>8}");
    }
    let violations = ledger.violations();
    println!("{:<28} {:>8}", "violations", violations.len());
    for violation in violations {
        println!("  {violation}");
    }
}
