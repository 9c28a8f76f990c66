//! Runs controllers under a lease: on standby until the lease is won, then as the leader until it is lost.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_cache::Informers;
use flyball_client::{Fence, Identities};
use flyball_election::{Candidate, Elector, Settings};
use flyball_latest::Receiver;
use flyball_runtime::config::LeaderElection;
use flyball_runtime::{Clock, Ended, Leadership, Metrics, Signal, Supervision, gates::Gate};
use futures::future::join_all;
use tokio::time::Instant;

use crate::{
    campaign::{Campaign, Candidates},
    clients::Clients,
    engine::Engine,
    equipment::{End, Ending},
    migration,
    prepare::Prepared,
    run::RunError,
};

/// What this process competes for leases with.
pub(crate) struct Election {
    pub(crate) main: Elector,
    /// For the lease of a leader migration, and what writes under it.
    second: Option<(Elector, (Fence, Identities))>,
    /// If the API server chooses the leader: what it chooses from.
    pub(crate) candidate: Option<Candidate>,
}

impl Election {
    /// `fence` is that of the writes under the main lease.
    pub(crate) fn new(
        prepared: &Prepared,
        clients: &Clients,
        clock: Clock,
        metrics: &Metrics,
        fence: Fence,
    ) -> Self {
        let generic = &prepared.options.config.generic;
        let coordinated = is_coordinated(prepared);
        let settings = Settings::new(&generic.leader_election, flyball_election::identity());
        let settings = Settings { coordinated, ..settings };
        let second = migration::elector(generic, settings.clone(), clients, clock, metrics);
        let second = second.map(|(elector, fence)| {
            let identities = clients.under(&fence).identities(&prepared.options, false);
            (elector, (fence, identities))
        });
        let main = clients.elector(settings, clock, metrics, fence);
        let candidate =
            coordinated.then(|| clients.candidate(main.identity(), prepared.gates.versions(), clock));
        let candidate = candidate.map(|candidate| candidate.counted_in(metrics));
        Self { main, second, candidate }
    }
}

/// What to do at the beginning and at the end of this process's leadership.
pub(crate) struct Hooks<B> {
    pub(crate) begin: B,
    pub(crate) end: Option<End>,
}

impl<B> Hooks<B> {
    /// Runs the hook for the end, for as long as it may take.
    pub(crate) async fn finish(end: Option<End>, why: Ending, limit: Duration) {
        let Some(end) = end else { return };
        if tokio::time::timeout(limit, end(why)).await.is_err() {
            tracing::error!(?why, ?limit, "the end hook of the leader did not finish in time");
        }
    }
}

/// The shutdown timeout (`--shutdown-timeout`), which starts with the signal; controllers and the end hook share it.
pub(crate) struct Grace {
    all: Duration,
    asked: OnceLock<Instant>,
}

impl Grace {
    /// Also after controllers that have used all of it.
    const LEAST: Duration = Duration::from_secs(1);

    /// Zero: as long as it takes.
    pub(crate) fn new(flag: Duration) -> Self {
        let all = if flag.is_zero() { Duration::MAX } else { flag };
        Self { all, asked: OnceLock::new() }
    }

    /// Notes when the process is asked to end. Never completes.
    pub(crate) async fn watch<T>(&self, shutdown: &Signal) -> T {
        shutdown.wait().await;
        let _ = self.asked.set(Instant::now());
        std::future::pending().await
    }

    /// All of it.
    pub(crate) fn all(&self) -> Duration {
        self.all
    }

    /// What is left of it.
    pub(crate) fn left(&self) -> Duration {
        let spent = self.asked.get().map_or(Duration::ZERO, Instant::elapsed);
        self.all.saturating_sub(spent).max(Self::LEAST)
    }
}

/// How long after a leader has stopped, at the latest, no other process can lead: the time for what must have ended by then.
pub fn handover_margin(election: &LeaderElection) -> Duration {
    Settings::new(election, String::new()).margin().max(Duration::from_secs(1))
}

/// Whether the API server chooses the leader (coordinated leader election).
fn is_coordinated(prepared: &Prepared) -> bool {
    let gate = Gate::CoordinatedLeaderElection;
    (prepared.component.reads)(gate) && prepared.gates.enabled(gate)
}

/// Runs controllers with leader election, until shutdown or until a lease is lost. On standby, their caches are kept filled.
pub(crate) async fn lead(
    prepared: &Prepared,
    engine: &Engine,
    supervision: Supervision,
    election: Election,
    informers: Informers,
    hooks: Hooks<impl Future<Output = ()>>,
) -> Result<(), RunError> {
    let Election { main, second, candidate } = election;
    let Hooks { begin, end } = hooks;
    let (send_vacancy, vacancies) = flyball_latest::channel(None);
    let main = main.on_vacancy(move |since| {
        send_vacancy.send_replace(Some(since));
    });
    let (second, writers_second) = second.unzip();
    let (begin_second, begun) = Signal::new();
    let mut campaign =
        Campaign::start(Candidates { main, second, candidate, begun }).map_err(RunError::Election)?;
    let (leads, leading) = Leadership::new();
    let (leads_second, leading_second) = Leadership::new();
    let (mine, migrated) = migration::by_lease(prepared);
    let work = async {
        let supervision_second = Supervision { leading: leading_second, ..supervision.clone() };
        let supervision_main = Supervision { leading, ..supervision.clone() };
        let engine_second = match writers_second {
            Some((fence, identities)) => engine.clone().under(fence, identities),
            None => engine.clone(),
        };
        let (main, second) = tokio::join!(
            engine.run(mine, &supervision_main),
            engine_second.run(migrated, &supervision_second)
        );
        // Controllers that are not needed end early; the process continues.
        supervision.shutdown.wait().await;
        main.max(second)
    };
    let (grace, shutdown) = (Grace::new(prepared.options.shutdown_timeout), supervision.shutdown.clone());
    let has_begun = AtomicBool::new(false);
    let (won, won_second) = (campaign.won(), campaign.won_second());
    let start_when_elected = async {
        let since = won.await;
        has_begun.store(true, Ordering::Relaxed);
        begin.await;
        leads.set(since);
        begin_second.set();
        leads_second.set(won_second.await);
        std::future::pending().await
    };
    let ended = tokio::select! {
        biased;
        lost = campaign.lost() => Err(lost),
        ended = grace.watch(&shutdown) => ended,
        ended = work => Ok(ended),
        () = start_when_elected => Ok(Ended::Orderly),
        () = update_caches_early(informers, vacancies) => Ok(Ended::Orderly),
    };
    let end = end.filter(|_| has_begun.load(Ordering::Relaxed));
    let ended = match ended {
        Ok(ended) => ended,
        Err(lost) => {
            let limit = handover_margin(&prepared.options.config.generic.leader_election);
            Hooks::<()>::finish(end, Ending::LeaseLost, limit).await;
            return Err(lost.into());
        }
    };
    Hooks::<()>::finish(end, Ending::Shutdown, grace.left()).await;
    let releases = prepared.component.release.is_wanted(&prepared.gates);
    if releases && ended != Ended::Orderly {
        // The next leader would start at once and might repeat a write of this process that the server is still processing.
        tracing::warn!("not releasing the lease, which expires: the outcome of some writes is not known");
    } else if releases {
        campaign.release(prepared.options.config.generic.leader_election.renew_deadline).await;
    }
    in_time(ended, prepared)
}

/// Upstream: cmd/kube-controller-manager/app/controllermanager.go, `RunControllers`.
pub(crate) fn in_time(ended: Ended, prepared: &Prepared) -> Result<(), RunError> {
    match ended {
        Ended::Orderly | Ended::WritesUnknown => Ok(()),
        Ended::Cancelled => Err(RunError::ShutdownTimeout(prepared.options.shutdown_timeout)),
    }
}

/// Brings the caches up to date as soon as the leader has stopped renewing its lease, so that controllers can start right after
/// the lease has expired.
async fn update_caches_early(informers: Informers, mut vacancies: Receiver<Option<Instant>>) {
    let mut changed = vacancies.changed().await;
    while changed.is_ok() {
        let vacant_since = *vacancies.borrow_and_update();
        let caches = async {
            if let Some(since) = vacant_since {
                join_all(informers.all().into_iter().map(|cache| cache.current_since(since))).await;
                tracing::debug!("caches are up to date");
            }
            std::future::pending::<Infallible>().await
        };
        changed = tokio::select! {
            biased;
            // The leader has renewed the lease, and has stopped again.
            changed = vacancies.changed() => changed,
            never = caches => match never {},
        };
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn controllers_and_the_hook_share_the_time_for_the_end() {
        let (grace, (stop, shutdown)) = (Grace::new(Duration::from_secs(10)), Signal::new());
        let spent = async |time: u64| {
            let _ = tokio::time::timeout(Duration::from_secs(time), grace.watch::<()>(&shutdown)).await;
            grace.left().as_secs()
        };
        assert_eq!(spent(60).await, 10, "nobody has asked");
        stop.set();
        assert_eq!(spent(7).await, 3);
        assert_eq!(spent(7).await, 1, "the hook has a moment in any case");
        assert_eq!(Grace::new(Duration::ZERO).left(), Duration::MAX, "zero is no limit");
    }
}
