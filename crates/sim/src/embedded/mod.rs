//! A cluster in this process: the embedded API server and our controller manager. Time is tokio's, so with a paused clock it
//! is virtual.

mod leaders;
mod manager;
mod restores;
mod transport;

use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use flyball_apiserver::{ApiServer, Options, Record, StaticToken, Uids};
use flyball_client::Transport;
use flyball_cloud::Cloud;
use jiff::Timestamp;
use parking_lot::Mutex;

pub use manager::RunningManager;
use restores::Restores;

use crate::audit::Entry;
use crate::client::ApiClient;
use crate::cluster::Pki;
use crate::faults::{Blackhole, Faults, Link};
use crate::features::Features;
use crate::golden::clock::Clock;
use crate::invariants::RuleChecker;

/// Both IP families, as in the real test cluster.
const SERVICE_RANGES: [&str; 2] = ["10.96.0.0/16", "fd00:96::/112"];
/// How long the server is down after a restore by a test.
const DOWN: Duration = Duration::from_secs(2);
/// Size of the audit log: all requests of one scenario must be kept until they are read.
const AUDIT_ENTRIES: usize = 1_000_000;

/// Keys and certificates in a folder. They take longer to create than everything else in a cluster, and nothing depends on
/// their values, so clusters that exist at the same time share them.
pub struct Keys {
    pki: Pki,
    _folder: tempfile::TempDir,
}

impl Keys {
    /// The keys of another cluster that still exists, or new ones.
    pub fn shared() -> anyhow::Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Keys>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock();
        if let Some(keys) = shared.upgrade() {
            return Ok(keys);
        }
        let folder = tempfile::Builder::new().prefix("flyball-embedded-").tempdir();
        let folder = folder.context("make a folder")?;
        let keys = Arc::new(Self { pki: Pki::create(folder.path().join("pki"), &[])?, _folder: folder });
        *shared = Arc::downgrade(&keys);
        Ok(keys)
    }
}

/// The server with its users, keys and clock.
pub struct Embedded {
    server: ApiServer,
    clock: Clock,
    keys: Arc<Keys>,
    read: u64,
    answers: Arc<transport::Answers>,
    faults: Option<Arc<Faults>>,
    blackhole: Option<Arc<Blackhole>>,
    checker: Option<Arc<RuleChecker>>,
    time_stands: bool,
}

impl Embedded {
    /// A new cluster whose time begins at `start`. The same seed gives the same names and uids.
    pub fn start(start: Timestamp, seed: u64, features: &Features) -> anyhow::Result<Self> {
        let keys = Keys::shared()?;
        let clock = Clock::starting_at(start);
        let key = std::fs::read_to_string(keys.pki.file("sa.key")).context("read the service account key")?;
        let ranges: Result<Vec<_>, _> = SERVICE_RANGES.iter().map(|range| range.parse()).collect();
        let server = ApiServer::new(Options {
            feature_gates: features.open_gates(),
            runtime_config: features.served(),
            clock: Arc::new(move || clock.now()),
            seed,
            // Random uids would influence how a run ends.
            uids: Uids::Falling,
            tokens: vec![
                StaticToken::new("admin-token", "admin", &["system:masters"]),
                StaticToken::new("kcm-token", "system:kube-controller-manager", &[]),
            ],
            service_account_key: Some(key),
            service_cidrs: ranges.context("parse the service ranges")?,
            // As in the real test cluster: pods must not wait for a controller that may not run, and only clusters with
            // kubelets restrict them.
            disabled_admission: ["ServiceAccount", "NodeRestriction"].map(str::to_owned).into(),
            audit_entries: AUDIT_ENTRIES,
            ..Options::default()
        })?;
        Ok(Self {
            server,
            clock,
            keys,
            read: 0,
            answers: Arc::default(),
            faults: None,
            blackhole: None,
            checker: None,
            time_stands: false,
        })
    }

    /// The time in the cluster.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn client(&self) -> Arc<dyn ApiClient> {
        let way = self.transport(Some("admin-token"));
        Arc::new(transport::InProcess::new(way, self.server.clone(), Arc::clone(&self.answers)))
    }

    /// The number of restores so far.
    pub fn restores(&self) -> u64 {
        self.answers.restores()
    }

    /// Waits until the server is up after its last restore.
    pub async fn up(&self) {
        self.answers.up().await;
    }

    /// A transport with the given token, or with the token of each request.
    pub fn transport(&self, token: Option<&str>) -> Arc<dyn Transport> {
        transport::to(&self.server, token)
    }

    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.server.store().version()
    }

    /// Restores the cluster to an earlier [`version`](Self::version), as from a snapshot of etcd; the API server is then
    /// a new one. Fails for a version that is no longer in the history.
    pub fn restore(&self, version: u64) -> anyhow::Result<()> {
        let restored = self.server.restore(version);
        self.answers.restored(DOWN);
        restored.map_err(|gone| anyhow::anyhow!("version {version} is gone, the oldest is {}", gone.oldest))
    }

    /// Adds faults between the server and controller managers that are started from now on. A restore undoes only writes that
    /// no test client has read.
    pub fn put_faults(&mut self, faults: Arc<Faults>) {
        let (server, answers, checker) =
            (self.server.clone(), Arc::clone(&self.answers), self.checker.clone());
        let restores =
            Restores::new(server.clone(), self.transport(Some("admin-token")), Arc::clone(&self.answers));
        faults.restore_by(move |writes, down| {
            let now = server.store().version();
            let to = now.saturating_sub(writes).max(answers.seen());
            if let Some(checker) = &checker {
                checker.state().remember_all();
            }
            if to >= now || !restores.restore(to) {
                return false;
            }
            answers.restored(down);
            if let Some(checker) = &checker {
                checker.state().restored(to);
            }
            true
        });
        self.faults = Some(faults);
    }

    /// Puts a blackhole into the way of controller managers that are started from now on.
    pub fn put_blackhole(&mut self, blackhole: Arc<Blackhole>) {
        self.blackhole = Some(blackhole);
    }

    /// Checks the rules at every write of controller managers that are started from now on.
    pub fn check_rules(&mut self) -> Arc<RuleChecker> {
        let checker = RuleChecker::new(self.server.clone());
        self.checker = Some(Arc::clone(&checker));
        checker
    }

    /// Stops the clocks of controller managers that are started from now on (not their timers), so that nothing becomes due by
    /// the passage of time.
    pub fn stop_managers_clocks(&mut self) {
        self.time_stands = true;
    }

    /// The clock for a controller manager that is started now.
    fn clock_of_manager(&self) -> impl Fn() -> flyball_runtime::Clock + Send + 'static {
        let (clock, stands) = (self.clock, self.time_stands);
        move || match stands {
            true => flyball_runtime::Clock::stopped_at(clock.now()),
            false => flyball_runtime::Clock::virtual_from(clock.now()),
        }
    }

    /// The ways of controller managers to the server, from now on.
    fn ways(&self) -> Ways {
        Ways {
            server: self.server.clone(),
            answers: Arc::clone(&self.answers),
            faults: self.faults.clone(),
            blackhole: self.blackhole.clone(),
            checker: self.checker.clone(),
        }
    }

    /// The audit log since the last call, without the administrator's requests.
    pub fn audit(&mut self) -> Vec<Entry> {
        let (records, next) = self.server.audit().since(self.read);
        self.read = next;
        let ours = records.iter().filter(|record| record.user != "admin");
        ours.map(|record| Entry::of(record)).collect()
    }

    /// All requests so far, whoever made them.
    pub fn history(&self) -> Vec<Arc<Record>> {
        self.server.audit().since(0).0
    }

    /// Starts our controller manager in this process.
    pub fn start_manager(&self, controllers: &[String], flags: &[String]) -> anyhow::Result<RunningManager> {
        leaders::start(self, manager::Program::kube(&self.keys.pki, controllers, flags))
    }

    /// Starts our cloud-controller-manager in this process, for a cloud that may outlive it.
    pub fn start_cloud_manager(
        &self,
        cloud: Cloud,
        controllers: &[String],
        flags: &[String],
    ) -> anyhow::Result<RunningManager> {
        leaders::start(self, manager::Program::cloud(cloud, controllers, flags))
    }
}

/// How controller managers reach the server.
struct Ways {
    server: ApiServer,
    answers: Arc<transport::Answers>,
    faults: Option<Arc<Faults>>,
    blackhole: Option<Arc<Blackhole>>,
    checker: Option<Arc<RuleChecker>>,
}

impl Ways {
    /// The transport of the process with this connection, with the given token or with the token of each request.
    fn of(&self, link: &Arc<Link>, is_standby: bool, token: Option<&str>) -> Arc<dyn Transport> {
        let way = transport::to(&self.server, token);
        let way = match &self.checker {
            Some(checker) => checker.over(way, link),
            None => way,
        };
        let way: Arc<dyn Transport> = Arc::new(transport::DelayedWrites::new(way, Arc::clone(&self.answers)));
        let way = match &self.blackhole {
            Some(blackhole) => blackhole.over(way),
            None => way,
        };
        match &self.faults {
            Some(faults) if is_standby => faults.over_standby(way, link),
            Some(faults) => faults.over(way, link),
            None => way,
        }
    }
}
