//! A cluster in this process: the embedded API server, and our controller manager beside it. Time is tokio's, so with
//! a paused clock it is virtual.

mod door;
mod manager;

use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use flyball_apiserver::{ApiServer, Options, StaticToken, Uids};
use flyball_client::{ServiceTransport, Transport};
use flyball_cloud::Cloud;
use jiff::Timestamp;
use parking_lot::Mutex;

pub use manager::RunningManager;

use crate::audit::Entry;
use crate::cluster::Pki;
use crate::door::Door;
use crate::faults::{Faults, Hole};
use crate::features::Features;
use crate::golden::clock::Clock;
use crate::invariants::Witness;

/// Both families, as the real test cluster has them.
const SERVICE_RANGES: [&str; 2] = ["10.96.0.0/16", "fd00:96::/112"];
/// How long a server is down that is restored on request.
const DOWN: Duration = Duration::from_secs(2);
/// Requests of one scenario: all must be kept until they are read.
const AUDIT_ENTRIES: usize = 1_000_000;

/// Keys and certificates in a folder. They take longer to make than all else that a cluster needs, and nothing depends
/// on which they are, so clusters that are there at the same time share them.
pub struct Keys {
    pki: Pki,
    _folder: tempfile::TempDir,
}

impl Keys {
    /// Those that somebody holds, or new ones.
    pub fn shared() -> anyhow::Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Keys>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock();
        if let Some(keys) = shared.upgrade() {
            return Ok(keys);
        }
        let folder = tempfile::Builder::new().prefix("flyball-embedded-").tempdir();
        let folder = folder.context("make a folder")?;
        let keys = Arc::new(Self { pki: Pki::create(folder.path().join("pki"))?, _folder: folder });
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
    answers: Arc<door::Answers>,
    faults: Option<Arc<Faults>>,
    hole: Option<Arc<Hole>>,
    witness: Option<Arc<Witness>>,
    time_stands: bool,
}

impl Embedded {
    /// A new cluster in which it is `start`. The same seed gives the same names and uids.
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
            // Chance should not decide how a run ends.
            uids: Uids::Falling,
            tokens: vec![
                StaticToken::new("admin-token", "admin", &["system:masters"]),
                StaticToken::new("kcm-token", "system:kube-controller-manager", &[]),
            ],
            service_account_key: Some(key),
            service_cidrs: ranges.context("parse the service ranges")?,
            // As in the real test cluster: pods do not wait for a controller that may not run.
            disabled_admission: ["ServiceAccount".to_owned()].into(),
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
            hole: None,
            witness: None,
            time_stands: false,
        })
    }

    /// The time in the cluster.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn door(&self) -> Arc<dyn Door> {
        let way = self.transport(Some("admin-token"));
        Arc::new(door::InProcess::new(way, self.server.clone(), Arc::clone(&self.answers)))
    }

    /// A way in with the given token, or with whatever the requests bring.
    pub fn transport(&self, token: Option<&str>) -> Arc<dyn Transport> {
        let bare = ServiceTransport::new(self.server.clone());
        match token {
            Some(token) => Arc::new(door::WithToken::new(bare, token)),
            None => Arc::new(bare),
        }
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

    /// Puts faults between the server and controller managers that are started from now on. A restore undoes only
    /// what nobody but controllers can have seen.
    pub fn put_faults(&mut self, faults: Arc<Faults>) {
        let (server, answers, witness) =
            (self.server.clone(), Arc::clone(&self.answers), self.witness.clone());
        faults.restore_by(move |writes, down| {
            let now = server.store().version();
            let to = now.saturating_sub(writes).max(answers.seen());
            if to >= now || server.restore(to).is_err() {
                return false;
            }
            answers.restored(down);
            if let Some(witness) = &witness {
                witness.world().restored(to);
            }
            true
        });
        self.faults = Some(faults);
    }

    /// Puts a hole into the way of controller managers that are started from now on.
    pub fn put_hole(&mut self, hole: Arc<Hole>) {
        self.hole = Some(hole);
    }

    /// Has every write of controller managers that are started from now on judged by the invariants.
    pub fn put_witness(&mut self) -> Arc<Witness> {
        let witness = Witness::at(self.server.clone());
        self.witness = Some(Arc::clone(&witness));
        witness
    }

    /// Stops the clocks of controller managers that are started from now on, though not their patience: what they
    /// do is not due to the time.
    pub fn stop_managers_clocks(&mut self) {
        self.time_stands = true;
    }

    /// The time for a controller manager that is started now.
    fn clock_of_manager(&self) -> impl Fn() -> flyball_runtime::Clock + Send + 'static {
        let (clock, stands) = (self.clock, self.time_stands);
        move || match stands {
            true => flyball_runtime::Clock::stopped_at(clock.now()),
            false => flyball_runtime::Clock::virtual_from(clock.now()),
        }
    }

    /// A controller manager's way in.
    fn way_of_manager(&self, token: Option<&str>) -> Arc<dyn Transport> {
        let way = self.transport(token);
        let way = match &self.witness {
            Some(witness) => witness.over(way),
            None => way,
        };
        let way: Arc<dyn Transport> = Arc::new(door::Distant::new(way, Arc::clone(&self.answers)));
        let way = match &self.hole {
            Some(hole) => hole.over(way),
            None => way,
        };
        match &self.faults {
            Some(faults) => faults.over(way),
            None => way,
        }
    }

    /// What was asked of the server since the last call, without what the administrator did.
    pub fn audit(&mut self) -> Vec<Entry> {
        let (records, next) = self.server.audit().since(self.read);
        self.read = next;
        let ours = records.iter().filter(|record| record.user != "admin");
        ours.map(|record| Entry::of(record)).collect()
    }

    /// Starts our controller manager in this process.
    pub fn start_manager(&self, controllers: &[String], flags: &[String]) -> anyhow::Result<RunningManager> {
        manager::start(self, manager::Program::kube(&self.keys.pki, controllers, flags))
    }

    /// Starts our cloud-controller-manager in this process, for a cloud that may outlive it.
    pub fn start_cloud_manager(
        &self,
        cloud: Cloud,
        controllers: &[String],
        flags: &[String],
    ) -> anyhow::Result<RunningManager> {
        manager::start(self, manager::Program::cloud(cloud, controllers, flags))
    }
}
