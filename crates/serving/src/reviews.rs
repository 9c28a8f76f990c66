//! Reviews by the API server. Anyone can cause them, so they are limited in rate, number and time.

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
const QPS: f64 = 150.0;
const BURST: u32 = 40;
/// Each waiting review holds a request of up to 64 kB. So many are sent within three seconds.
const WAITING: usize = 400;
/// Upstream: authentication.go, TokenRequestTimeout.
const PATIENCE: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("too many reviews are waiting")]
    Busy,
    #[error("the API server did not respond within {PATIENCE:?}")]
    Late,
    #[error("the review failed")]
    Request(#[from] Error),
}

#[derive(Debug)]
pub(super) struct Reviewer {
    client: Client,
    room: Semaphore,
    count: &'static Family,
    duration: &'static Family,
    metrics: Metrics,
}

impl Reviewer {
    pub(super) fn new(
        client: Client,
        (count, duration): (&'static Family, &'static Family),
        metrics: &Metrics,
    ) -> Self {
        let limits = ClientOptions { qps: QPS, burst: BURST, timeout: PATIENCE, ..client.options().clone() };
        let client = client.with_options(limits);
        Self { client, room: Semaphore::new(WAITING), count, duration, metrics: metrics.clone() }
    }

    /// The review with its status.
    pub(super) async fn ask(&self, resource: &ResourceType, review: &Value) -> Result<Value, ReviewError> {
        let Ok(_room) = self.room.try_acquire() else { return Err(ReviewError::Busy) };
        match timeout(PATIENCE, self.persist(resource, review)).await {
            Ok(answer) => answer.map_err(ReviewError::Request),
            Err(_) => Err(ReviewError::Late),
        }
    }

    /// Retries after failures that may be temporary, with upstream's delays.
    async fn persist(&self, resource: &ResourceType, review: &Value) -> Result<Value, Error> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.attempt(resource, review).await {
                Err(error) if error.code().is_none_or(|code| code >= 500 || code == 429) => {
                    sleep(pause).await;
                    pause = pause.mul_f64(1.5);
                }
                answer => return answer,
            }
        }
        self.attempt(resource, review).await
    }

    async fn attempt(&self, resource: &ResourceType, review: &Value) -> Result<Value, Error> {
        let start = Instant::now();
        let answer = self.client.create_dynamic(resource, None, review).await;
        let code = match &answer {
            Ok(_) => "201".to_owned(),
            Err(error) => error.code().map_or_else(|| "<error>".to_owned(), |code| code.to_string()),
        };
        self.metrics.counter(self.count, &[&code]).inc();
        self.metrics.histogram(self.duration, &[&code]).observe(start.elapsed().as_secs_f64());
        answer
    }
}
