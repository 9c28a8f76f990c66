//! The LeaseCandidate of a process: with coordinated leader election, the API server chooses the holder of a lease among the
//! processes that have one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_api::{Key, ResourceType, Timestamp, time};
use flyball_client::{Client, Error, EventKind};
use flyball_runtime::metrics::{Metrics, Passage};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::watch_of;

const CANDIDATES: ResourceType =
    ResourceType::new("coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate", true);
const NAMESPACE: &str = "kube-system";
/// The holder is a process with the oldest emulated version.
const STRATEGY: &str = "OldestEmulationVersion";
/// How often it is renewed without a request of the server.
const RENEWAL: Duration = Duration::from_secs(300);
/// The shortest time between two renewals.
const PAUSE: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(5);

pub struct Candidate {
    client: Client,
    /// The identity of the process.
    name: String,
    /// The lease that it could hold.
    lease: &'static str,
    /// Of the binary, and the emulated one, each with a patch.
    versions: (String, String),
    time: Box<dyn Fn() -> Timestamp + Send + Sync>,
    health: CandidateHealth,
    renewals: Option<Passage>,
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Candidate({} for {})", self.name, self.lease)
    }
}

impl Candidate {
    pub fn new(
        client: Client,
        name: String,
        lease: &'static str,
        versions: (String, String),
        time: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        Self {
            client,
            name,
            lease,
            versions,
            time: Box::new(time),
            health: CandidateHealth::default(),
            renewals: None,
        }
    }

    /// Shows its renewals in the metrics of work queues, under the name of upstream's queue.
    #[must_use]
    pub fn counted_in(self, metrics: &Metrics) -> Self {
        Self { renewals: Some(metrics.passage("leasecandidate")), ..self }
    }

    /// The check that `/healthz` shows as `informer-sync`.
    pub fn health(&self) -> CandidateHealth {
        self.health.clone()
    }

    /// Creates the object, and renews it every five minutes and when the server requests it, until the process ends.
    pub async fn run(self) {
        loop {
            let began = Instant::now();
            if let Err(error) = self.stand().await {
                tracing::warn!(
                    candidate = self.name,
                    error = &error as &dyn std::error::Error,
                    "cannot keep the LeaseCandidate"
                );
                sleep(RETRY).await;
            }
            sleep_until(began + PAUSE).await;
        }
    }

    /// Creates or renews the object, and returns when it has to be renewed.
    async fn stand(&self) -> Result<(), Error> {
        let key = Key::new(NAMESPACE, self.name.as_str());
        let candidate = match self.client.get_dynamic(&CANDIDATES, &key).await {
            Ok(candidate) => {
                let renewed = renewed(candidate, (self.time)());
                self.client.update_dynamic(&CANDIDATES, &key, None, &renewed).await?
            }
            Err(error) if error.is_not_found() => {
                self.client.create_dynamic(&CANDIDATES, NAMESPACE, &self.object()).await?
            }
            Err(error) => return Err(error),
        };
        self.health.0.store(true, Ordering::Relaxed);
        if let Some(renewals) = &self.renewals {
            renewals.through(|| ());
        }
        timeout(RENEWAL, self.renewal_requested(&candidate)).await.unwrap_or(Ok(()))
    }

    /// Waits until the server requests a renewal, the object is gone, or the watch ends.
    async fn renewal_requested(&self, candidate: &Value) -> Result<(), Error> {
        let params = watch_of(NAMESPACE, &self.name, candidate, RENEWAL);
        let mut events = self.client.watch(&CANDIDATES, &params).await?;
        while let Some(event) = events.next().await {
            let event = event?;
            let is_due = match event.kind {
                EventKind::Added | EventKind::Modified => {
                    event.object.decode_as().is_ok_and(|candidate| is_pinged(&candidate))
                }
                EventKind::Deleted => true,
                EventKind::Bookmark => false,
            };
            if is_due {
                break;
            }
        }
        Ok(())
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": CANDIDATES.api_version(),
            "kind": CANDIDATES.kind,
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "leaseName": self.lease,
                "binaryVersion": self.versions.0,
                "emulationVersion": self.versions.1,
                "strategy": STRATEGY,
                "renewTime": time::format_micros((self.time)()),
            },
        })
    }
}

/// The health check of coordinated leader election: it fails until the LeaseCandidate was read or created for the first time.
#[derive(Debug, Clone, Default)]
pub struct CandidateHealth(Arc<AtomicBool>);

impl CandidateHealth {
    /// Upstream's check is about its informer.
    pub const NAME: &str = "informer-sync";

    pub fn check(&self) -> Result<(), String> {
        let is_synced = self.0.load(Ordering::Relaxed);
        is_synced
            .then_some(())
            .ok_or_else(|| "the LeaseCandidate of this process was not read yet".to_owned())
    }
}

fn renewed(mut candidate: Value, now: Timestamp) -> Value {
    if let Some(metadata) = candidate["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    candidate["spec"]["renewTime"] = time::format_micros(now).into();
    candidate
}

/// Whether the server has requested a renewal (`pingTime`) since the last one.
fn is_pinged(candidate: &Value) -> bool {
    let time =
        |field: &str| candidate["spec"][field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time("pingTime").is_some_and(|pinged| time("renewTime").is_none_or(|renewed| pinged > renewed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_answers_a_ping_once() {
        let candidate = |ping: Option<&str>| {
            json!({"metadata": {"name": "me", "managedFields": []},
                "spec": {"pingTime": ping, "renewTime": "2026-01-01T00:00:05.000000Z"}})
        };
        assert!(!is_pinged(&candidate(None)));
        assert!(!is_pinged(&candidate(Some("2026-01-01T00:00:04.000000Z"))));
        let pinged = candidate(Some("2026-01-01T00:00:06.000000Z"));
        assert!(is_pinged(&pinged));
        let answered = renewed(pinged, "2026-01-01T00:00:07Z".parse().unwrap());
        assert!(!is_pinged(&answered) && answered["metadata"].get("managedFields").is_none());
    }
}
