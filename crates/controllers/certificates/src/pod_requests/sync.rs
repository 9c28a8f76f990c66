//! The shell: every five minutes, look at all requests.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::time::SignedDuration;
use flyball_api::{Object, ObjectMeta, PartialObject, ResourceType, Timestamp};
use flyball_cache::Informer;
use flyball_runtime::{Chain, Context, exactly};

pub(super) const REQUESTS: ResourceType = ResourceType::new(
    "certificates.k8s.io",
    "v1beta1",
    "podcertificaterequests",
    "PodCertificateRequest",
    true,
);

const PERIOD: Duration = Duration::from_secs(5 * 60);
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

pub(super) struct Cleaner {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<PartialObject>>,
}

impl Cleaner {
    pub(super) async fn run(&self) {
        loop {
            self.look().await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn look(&self) {
        let now = self.cx.clock.now();
        let mut requests = self.requests.store().list();
        requests.retain(|request| is_over(request.meta(), now));
        requests.sort_unstable_by_key(|request| request.key());
        for request in requests {
            let key = request.key();
            let writer = self.cx.writer(&key).unawaited();
            let why = "whoever was to sign it has had fifteen minutes";
            let deleted = writer.delete_dynamic(&REQUESTS, &key, exactly(request.meta()), why).await;
            if let Err(error) = deleted
                && !error.is_not_found()
            {
                tracing::warn!(request = %key, error = %Chain(&error), "cannot delete a pod's certificate request; trying again in five minutes");
            }
        }
    }
}

fn is_over(request: &ObjectMeta, now: Timestamp) -> bool {
    request.creation_timestamp.is_none_or(|made| now.duration_since(made) >= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_fifteen_minutes() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        for (made, want) in [("2026-03-10T11:45:01Z", false), ("2026-03-10T11:45:00Z", true)] {
            let meta =
                ObjectMeta { creation_timestamp: Some(made.parse().unwrap()), ..ObjectMeta::default() };
            assert_eq!(is_over(&meta, now), want, "{made}");
        }
    }
}
