//! Simulates leader election among the processes of a controller manager. The injected faults crash the leader or disconnect it from
//! the API server, and another process takes over. No Lease objects are used: the simulated lease of a disconnected leader expires
//! on the same schedule as in real leader election.

use std::sync::Arc;
use std::time::Duration;

use flyball_election::Settings;
use flyball_runtime::config::LeaderElection;
use flyball_runtime::{Leadership, LeadershipSender, Signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::Embedded;
use super::manager::{self, Life, Post, Program, RunningManager};
use crate::faults::{Fate, Faults, Link, RETRY_PERIOD, Safeguard};

/// How long a controller manager may take to stop.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long a former leader keeps running after it reconnects: its elector should stop it at once, but may be slow.
const FORMER_LEADER_CONTINUES: Duration = Duration::from_secs(5);
/// How long after the leader renews its lease a standby observes the renewal, and restarts its expiry timer.
const RENEWAL_SEEN_AFTER: Duration = Duration::from_millis(20);

/// The leases of simulated leaders: so short that a standby's caches may still lag when it takes over.
fn lease() -> Settings {
    let config = LeaderElection {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1200),
        retry_period: RETRY_PERIOD,
        ..LeaderElection::default()
    };
    Settings::new(&config, String::new())
}

/// A process, and its connection to the server.
struct Process {
    manager: RunningManager,
    link: Arc<Link>,
}

impl Process {
    fn begin(begin: &impl Fn(Post, &Arc<Link>) -> RunningManager, post: Post) -> Self {
        let link = Link::intact();
        if matches!(post, Post::Leader) {
            link.lead();
        }
        Self { manager: begin(post, &link), link }
    }

    /// Continues although another process leads, until some time after its connection is back.
    async fn outlives_its_lease(self, cut_off_for: Duration) {
        self.link.depose();
        sleep(cut_off_for).await;
        self.link.mend();
        sleep(FORMER_LEADER_CONTINUES).await;
    }
}

/// A process that stands by, and how it is made the leader.
struct Standby {
    process: Process,
    leads: LeadershipSender,
}

impl Standby {
    fn begin(begin: &impl Fn(Post, &Arc<Link>) -> RunningManager) -> Self {
        let (leads, leading) = Leadership::new();
        Self { process: Process::begin(begin, Post::Standby(leading)), leads }
    }

    /// Workers start when the caches show everything that former leaders wrote until `since`.
    fn take_over(self, since: Instant, faults: &Faults) -> Process {
        self.process.link.lead();
        self.leads.set(Some(since).filter(|_| !faults.lack(Safeguard::CurrentCaches)));
        self.process
    }
}

/// How a leader's term ends.
enum End {
    Crash,
    Failover,
    /// The lease has ended, and the leader does not know it.
    Expired {
        /// The time since which it cannot have written.
        since: Instant,
        /// How long it is still cut off.
        cut_off_for: Duration,
    },
}

/// Waits until the faults end the term of a leader. One that is cut off for a short time stays the leader.
async fn end_of_term(leader: &Link, faults: &Faults) -> End {
    let lease = lease();
    loop {
        let (renewed, lasts) = match faults.fate().await {
            Fate::Crash => return End::Crash,
            Fate::Failover => return End::Failover,
            Fate::CutOff { renewed, lasts } => (renewed, lasts),
        };
        let (cut, fence) = (Instant::now(), leader.fence());
        if !faults.lack(Safeguard::Fence) {
            fence.hold_until(fence.now() + lease.validity().saturating_sub(renewed));
        }
        let left = |of: Duration| of.saturating_sub(renewed);
        if lasts < left(lease.renew_deadline) {
            sleep(lasts).await;
            fence.hold_until(fence.now() + Duration::MAX);
            leader.mend();
            continue;
        }
        let (expires, seen) = (left(lease.recorded_duration()), RENEWAL_SEEN_AFTER);
        sleep_until(cut + expires + seen).await;
        let since = cut + left(lease.validity()) + seen;
        return End::Expired { since, cut_off_for: lasts.saturating_sub(expires + seen) };
    }
}

/// Starts a controller manager that is subject to the cluster's injected faults. After a crash, a new process is started. If failover
/// is enabled, a standby also runs: it takes over on failover or lease expiry, and a new standby is started.
pub(super) fn start(cluster: &Embedded, program: Program) -> anyhow::Result<RunningManager> {
    let begin = manager::prepare(cluster, program)?;
    let Some(faults) = cluster.faults.clone() else {
        return Ok(begin(Post::Leader, &Link::intact()));
    };
    let (stop, shutdown) = Signal::new();
    let life = Life::default();
    let shown = Arc::clone(&life);
    let task = tokio::spawn(async move {
        let mut leader = Process::begin(&begin, Post::Leader);
        let mut former = JoinSet::new();
        loop {
            shown.send_replace(leader.manager.life.borrow().clone());
            let standby = faults.fail_over().then(|| Standby::begin(&begin));
            let end = tokio::select! {
                biased;
                end = end_of_term(&leader.link, &faults) => end,
                () = shutdown.wait() => {
                    leader.link.mend();
                    return leader.manager.stop(LAST_WORDS).await;
                }
            };
            leader = match (end, standby) {
                (End::Failover, Some(standby)) => {
                    drop(leader);
                    standby.take_over(Instant::now(), &faults)
                }
                (End::Expired { since, cut_off_for }, Some(standby)) => {
                    former.spawn(leader.outlives_its_lease(cut_off_for));
                    standby.take_over(since, &faults)
                }
                (_, standby) => {
                    drop((leader, standby));
                    Process::begin(&begin, Post::Leader)
                }
            };
        }
    });
    Ok(RunningManager { stop, task, life })
}
