//! Runs controllers under a lease: on standby until the lease is won, then as the leader until it is lost.

use flyball_cache::Informers;
use flyball_client::Fence;
use flyball_election::{CandidateHealth, Elector, Settings};
use flyball_runtime::{Clock, Leadership, Metrics, Signal, Supervision, gates::Gate};
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::{
    campaign::{Campaign, Candidates},
    clients::Clients,
    engine::Engine,
    migration,
    prepare::Prepared,
    run::RunError,
};

/// What this process competes for leases with.
pub(crate) struct Election {
    pub(crate) main: Elector,
    /// For the lease of a leader migration.
    second: Option<(Elector, Fence)>,
    /// If the API server chooses the leader: the health of the candidate that it chooses from.
    pub(crate) candidate: Option<CandidateHealth>,
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
        let main = clients.elector(settings, clock, metrics, fence);
        let candidate = coordinated.then(|| {
            let candidate = clients.candidate(main.identity(), prepared.gates.versions(), clock);
            let health = candidate.health();
            tokio::spawn(candidate.run());
            health
        });
        Self { main, second, candidate }
    }
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
    begin: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let Election { main, second, .. } = election;
    let (send_vacancy, vacancies) = watch::channel(None);
    let main = main.on_vacancy(move |since| {
        send_vacancy.send_replace(Some(since));
    });
    let (second, second_fence) = second.unzip();
    let (begin_second, begun) = Signal::new();
    let mut campaign = Campaign::start(Candidates { main, second, begun }).map_err(RunError::Election)?;
    let (leads, leading) = Leadership::new();
    let (leads_second, leading_second) = Leadership::new();
    let (mine, migrated) = migration::by_lease(prepared);
    let work = async {
        let supervision_second = Supervision { leading: leading_second, ..supervision.clone() };
        let supervision_main = Supervision { leading, ..supervision.clone() };
        let engine_second = engine.clone().under(second_fence);
        tokio::join!(engine.run(mine, &supervision_main), engine_second.run(migrated, &supervision_second));
        // Controllers that are not needed end early; the process continues.
        supervision.shutdown.wait().await;
    };
    let (won, won_second) = (campaign.won(), campaign.won_second());
    let start_when_elected = async {
        let since = won.await;
        begin.await;
        leads.set(since);
        begin_second.set();
        leads_second.set(won_second.await);
        std::future::pending().await
    };
    tokio::select! {
        lost = campaign.lost() => return Err(lost.into()),
        () = work => {}
        () = start_when_elected => {}
        () = update_caches_early(informers, vacancies) => {}
    }
    if prepared.component.release_gate.is_some_and(|gate| prepared.gates.enabled(gate)) {
        campaign.release(prepared.options.config.generic.leader_election.renew_deadline).await;
    }
    Ok(())
}

/// Brings the caches up to date as soon as the leader has stopped renewing its lease, so that controllers can start right after
/// the lease has expired.
async fn update_caches_early(informers: Informers, mut vacancies: watch::Receiver<Option<Instant>>) {
    while vacancies.changed().await.is_ok() {
        let Some(since) = *vacancies.borrow_and_update() else { continue };
        let caches = join_all(informers.all().into_iter().map(|cache| cache.current_since(since)));
        tokio::select! {
            _ = caches => tracing::debug!("caches are up to date"),
            // The leader has renewed the lease, and has stopped again.
            _ = vacancies.changed() => vacancies.mark_changed(),
        }
    }
    std::future::pending().await
}
