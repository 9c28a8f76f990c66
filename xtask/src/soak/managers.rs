//! The controller managers of a soak: one without leader election, or a leader and a standby.

use std::path::PathBuf;
use std::time::Duration;

use flyball_sim::cluster::{Cluster, Manager, Process};
use tokio::time::Instant;

use super::ledger::Ledger;

/// A lease that a run can wait for often.
const LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
];
/// Longer than the lease, and than the standby takes to act.
const FROZEN: Duration = Duration::from_secs(9);
/// A leader that continues after that ends at once.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Managers {
    binary: PathBuf,
    elects: bool,
    /// The one that has run for longest comes first: of two it is the leader, unless it has lost its lease while the API server was
    /// away.
    running: Vec<Process>,
    started: usize,
    pub(super) deaths: usize,
}

impl Managers {
    pub(super) fn new(binary: PathBuf, elects: bool) -> Self {
        Self { binary, elects, running: vec![], started: 0, deaths: 0 }
    }

    /// Starts as many as there should be.
    pub(super) fn start(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let wanted = if self.elects { 2 } else { 1 };
        // Without leader election if there is one: a dead process's lease would only make the next one wait.
        let flags: Vec<String> = match self.elects {
            true => LEASE.iter().map(|flag| (*flag).to_owned()).collect(),
            false => vec![],
        };
        while self.running.len() < wanted {
            let manager =
                Manager { binary: &self.binary, controllers: &[], leader_elect: self.elects, flags: &flags };
            self.started += 1;
            // Each has a log of its own if there are two.
            let name = match self.elects {
                true => format!("kube-controller-manager-{}", self.started),
                false => "kube-controller-manager".to_owned(),
            };
            self.running.push(cluster.start_manager(&name, &manager)?);
        }
        Ok(())
    }

    pub(super) fn kill(&mut self, cluster: &Cluster, ledger: &Ledger) -> anyhow::Result<()> {
        self.note_ends(ledger);
        if !self.running.is_empty() {
            self.running.remove(0).kill();
        }
        self.deaths += 1;
        ledger.count("kills of the manager");
        self.start(cluster)
    }

    /// Stops the leader for longer than its lease. When it continues, it must not write and has to end; a standby that was taken for
    /// the leader continues.
    pub(super) async fn freeze(&mut self, cluster: &Cluster, ledger: &Ledger) -> anyhow::Result<()> {
        self.keep_running(cluster, ledger)?;
        let mut frozen = self.running.remove(0);
        frozen.pause();
        tokio::time::sleep(FROZEN).await;
        frozen.go_on();
        ledger.count("leaders stopped and continued");
        let continued = Instant::now();
        while frozen.ended().is_none() && continued.elapsed() < ENDS_WITHIN {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        match frozen.ended() {
            None => {
                ledger.count("standbys stopped and continued");
                self.running.push(frozen);
            }
            Some(status) if status.success() => {
                ledger.violation("a leader that was stopped ended as if nothing had happened".to_owned());
            }
            Some(_) => {}
        }
        self.start(cluster)
    }

    /// A manager that starts while its server is away may exit, as upstream's does, and so does a leader that cannot renew its lease; it
    /// is started again, as a kubelet would. A crash is a violation.
    fn note_ends(&mut self, ledger: &Ledger) {
        self.running.retain_mut(|manager| {
            let Some(status) = manager.ended() else { return true };
            match status.code() {
                Some(1) => ledger.count("managers that gave up"),
                _ => ledger.violation(format!("a manager ended by itself with {status}")),
            }
            false
        });
    }

    pub(super) fn keep_running(&mut self, cluster: &Cluster, ledger: &Ledger) -> anyhow::Result<()> {
        self.note_ends(ledger);
        self.start(cluster)
    }
}
