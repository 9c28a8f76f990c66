//! Reviews by the API server. Anyone can cause them, so they are limited in rate, number and time. Clients that are known have a
//! share of their own: who sends made-up tokens and paths does not keep a scraper from its metrics.

use std::time::Duration;

use flyball_api::ResourceType;
use flyball_client::{Client, ClientOptions, Error};
use flyball_runtime::metrics::{Family, Metrics};
use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

/// Upstream sends 200 a second with a burst of 400. Here the API server gets at most 200 in any second: the burst, what is
/// refilled within that second, and some late ones.
const OF_STRANGERS: Share = Share { qps: 110.0, burst: 30, waiting: 300 };
const OF_KNOWN: Share = Share { qps: 40.0, burst: 10, waiting: 100 };
/// Upstream: authentication.go, TokenRequestTimeout.
const TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("too many reviews are waiting")]
    Busy,
    #[error("the API server did not respond within {TIMEOUT:?}")]
    Late,
    #[error("the review failed")]
    Request(#[from] Error),
}

/// What one kind of clients may cause.
struct Share {
    qps: f64,
    burst: u32,
    /// Each waiting review holds a request of up to 64 kB. So many are sent within three seconds.
    waiting: usize,
}

/// Who causes a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Stranger,
    /// A client that has shown valid credentials: with this request, or with the same ones a while ago.
    Known,
}

#[derive(Debug)]
struct Lane {
    client: Client,
    room: Semaphore,
}

impl Lane {
    fn new(client: &Client, Share { qps, burst, waiting }: Share) -> Self {
        let limits = ClientOptions { qps, burst, ..client.options().clone() }.within(TIMEOUT);
        Self { client: client.with_options(limits), room: Semaphore::new(waiting) }
    }
}

#[derive(Debug)]
pub(super) struct Reviewer {
    strangers: Lane,
    known: Lane,
    count: &'static Family,
    duration: &'static Family,
    metrics: Metrics,
}

impl Reviewer {
    pub(super) fn new(
        client: &Client,
        (count, duration): (&'static Family, &'static Family),
        metrics: &Metrics,
    ) -> Self {
        let (strangers, known) = (Lane::new(client, OF_STRANGERS), Lane::new(client, OF_KNOWN));
        Self { strangers, known, count, duration, metrics: metrics.clone() }
    }

    /// The review with its status.
    pub(super) async fn review(
        &self,
        cause: Cause,
        resource: &ResourceType,
        review: &Value,
    ) -> Result<Value, ReviewError> {
        let lane = match cause {
            Cause::Stranger => &self.strangers,
            Cause::Known => &self.known,
        };
        let Ok(_room) = lane.room.try_acquire() else { return Err(ReviewError::Busy) };
        match timeout(TIMEOUT, self.persist(&lane.client, resource, review)).await {
            Ok(answer) => answer.map_err(ReviewError::Request),
            Err(_) => Err(ReviewError::Late),
        }
    }

    /// Retries after failures that may be temporary, with upstream's delays.
    async fn persist(
        &self,
        client: &Client,
        resource: &ResourceType,
        review: &Value,
    ) -> Result<Value, Error> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.attempt(client, resource, review).await {
                Err(error) if error.code().is_none_or(|code| code >= 500 || code == 429) => {
                    sleep(pause).await;
                    pause = pause.mul_f64(1.5);
                }
                answer => return answer,
            }
        }
        self.attempt(client, resource, review).await
    }

    async fn attempt(
        &self,
        client: &Client,
        resource: &ResourceType,
        review: &Value,
    ) -> Result<Value, Error> {
        let start = Instant::now();
        let answer = client.create_dynamic(resource, None, review).await;
        let code = match &answer {
            Ok(_) => "201".to_owned(),
            Err(error) => error.code().map_or_else(|| "<error>".to_owned(), |code| code.to_string()),
        };
        self.metrics.counter(self.count, &[&code]).inc();
        self.metrics.histogram(self.duration, &[&code]).observe(start.elapsed().as_secs_f64());
        answer
    }
}
