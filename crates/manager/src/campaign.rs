//! Leader election, on its own thread with its own connections, so that controllers cannot delay a renewal.

use std::io;
use std::thread;
use std::time::Duration;

use flyball_election::{Candidate, Elector, Lost};
use flyball_latest::{Receiver, Sender};
use flyball_runtime::{Chain, Signal};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The electors of the process.
pub(crate) struct Candidates {
    pub(crate) main: Elector,
    /// For the lease of a leader migration, which is acquired after the main lease, when its controllers have started.
    pub(crate) second: Option<Elector>,
    /// With coordinated leader election. It shares the electors' connections, which run on the thread on which they are opened.
    pub(crate) candidate: Option<Candidate>,
    /// Set when the controllers under the main lease have started.
    pub(crate) begun: Signal,
}

/// The running electors, as seen from the controllers' runtime.
pub(crate) struct Campaign {
    won: Receiver<Won>,
    lost: oneshot::Receiver<Lost>,
    end: Option<oneshot::Sender<End>>,
}

/// Since when no other process can have written, for each lease that is held.
#[derive(Debug, Clone, Copy, Default)]
struct Won {
    main: Option<Instant>,
    second: Option<Instant>,
}

/// A request to release the leases, with a time limit.
struct End {
    within: Duration,
    done: oneshot::Sender<()>,
}

impl Campaign {
    /// Starts a new thread.
    pub(crate) fn start(candidates: Candidates) -> io::Result<Self> {
        let (winning, won) = flyball_latest::channel(Won::default());
        let (losing, lost) = oneshot::channel();
        let (end, ending) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("election".to_owned()).spawn(move || {
            runtime.block_on(stand(candidates, winning, losing, ending));
        })?;
        Ok(Self { won, lost, end: Some(end) })
    }

    /// Waits until the main lease is held.
    pub(crate) fn won(&self) -> impl Future<Output = Instant> + use<> {
        wait(self.won.clone(), |won| won.main)
    }

    /// Waits until the second lease is held.
    pub(crate) fn won_second(&self) -> impl Future<Output = Instant> + use<> {
        wait(self.won.clone(), |won| won.second)
    }

    /// Waits until a lease is lost, or the elector's thread has ended.
    pub(crate) async fn lost(&mut self) -> Lost {
        (&mut self.lost).await.unwrap_or(Lost::BrokenOff)
    }

    /// Releases the leases. All controllers must have ended.
    pub(crate) async fn release(&mut self, within: Duration) {
        let (done, released) = oneshot::channel();
        if let Some(end) = self.end.take()
            && end.send(End { within, done }).is_ok()
        {
            let _ = released.await;
        }
    }
}

async fn wait(mut won: Receiver<Won>, which: impl Fn(&Won) -> Option<Instant>) -> Instant {
    let since = won.wait_for(|won| which(won).is_some()).await.ok().and_then(|won| which(&won));
    match since {
        Some(since) => since,
        // The elector's thread has ended, which `lost` reports.
        None => std::future::pending().await,
    }
}

async fn stand(
    candidates: Candidates,
    winning: Sender<Won>,
    losing: oneshot::Sender<Lost>,
    ending: oneshot::Receiver<End>,
) {
    let Candidates { mut main, mut second, candidate, begun } = candidates;
    if let Some(candidate) = candidate {
        tokio::spawn(candidate.run());
    }
    let reign = async {
        let since = main.acquire().await;
        winning.send_modify(|won| won.main = Some(since));
        let second = async {
            begun.wait().await;
            let Some(second) = &mut second else { return std::future::pending().await };
            let since = second.acquire().await;
            winning.send_modify(|won| won.second = Some(since));
            second.renew().await
        };
        tokio::select! {
            biased;
            lost = main.renew() => lost,
            lost = second => lost,
        }
    };
    let end = tokio::select! {
        biased;
        lost = reign => {
            let _ = losing.send(lost);
            return;
        }
        Ok(end) = ending => end,
    };
    for elector in second.iter_mut().chain([&mut main]) {
        release(elector, end.within).await;
    }
    let _ = end.done.send(());
}

async fn release(elector: &mut Elector, within: Duration) {
    match tokio::time::timeout(within, elector.release()).await {
        Ok(Ok(())) => tracing::info!("released the lease"),
        Ok(Err(error)) => tracing::warn!(error = %Chain(&error), "cannot release the lease"),
        Err(_) => tracing::warn!(?within, "releasing the lease took too long"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use bytes::Bytes;
    use flyball_api::Timestamp;
    use flyball_client::{Body, Client, ClientOptions, Transport, TransportError};
    use flyball_election::Settings;
    use flyball_runtime::Metrics;
    use flyball_runtime::config::LeaderElection;
    use futures::future::BoxFuture;

    use super::*;

    /// Never responds, and notes which thread has requested what.
    #[derive(Default)]
    struct Threads(flyball_latest::Sender<BTreeSet<(String, Option<String>)>>);

    impl Transport for Threads {
        fn send(
            &self,
            request: http::Request<Bytes>,
        ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
            let resource = request.uri().path().split('/').find(|part| part.starts_with("lease"));
            let thread = thread::current().name().map(str::to_owned);
            self.0.send_modify(|seen| {
                seen.insert((resource.unwrap_or_default().to_owned(), thread));
            });
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn all_connections_for_leader_election_run_on_its_own_thread() {
        let threads = Arc::new(Threads::default());
        let client = Client::new(threads.clone(), ClientOptions::default());
        let settings = Settings::new(&LeaderElection::default(), "me".to_owned());
        let main = Elector::new(settings, client.clone(), Metrics::default(), Timestamp::now);
        let versions = ("1.36.4".to_owned(), "1.36.0".to_owned());
        let candidate = Candidate::new(client, "me".to_owned(), "test", versions, Timestamp::now);
        let begun = Signal::new().1;
        let _campaign =
            Campaign::start(Candidates { main, second: None, candidate: Some(candidate), begun }).unwrap();
        let mut seen = threads.0.subscribe();
        let seen = seen.wait_for(|seen| seen.len() == 2).await.unwrap();
        let on_election = |resource: &str| (resource.to_owned(), Some("election".to_owned()));
        assert_eq!(seen, BTreeSet::from([on_election("leases"), on_election("leasecandidates")]));
    }
}
