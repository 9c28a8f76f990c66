//! Keys that are valid now: they sign requests, and are fetched again before they expire.

mod sources;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::Timestamp;
use flyball_cloud::kit::http::Credentials;
use flyball_runtime::{Chain, Clock, Signal};
use parking_lot::RwLock;
use smol_str::SmolStr;

use crate::sigv4::{Keys, Scope, sign};

pub use sources::{Environment, KeysError, Source};

/// Keys are fetched again so long before they expire.
const BEFORE: Duration = Duration::from_secs(300);
/// After a failure, and for keys that are valid for a short time only.
const RETRY: Duration = Duration::from_secs(30);

/// The keys that are in use.
#[derive(Debug)]
pub struct Keyring {
    keys: RwLock<Keys>,
    clock: Clock,
}

#[derive(Debug, thiserror::Error)]
#[error("the access key {id} has expired at {at}, and there is no other yet; the log says why")]
struct Expired {
    id: String,
    at: Timestamp,
}

impl Keyring {
    pub fn new(keys: Keys, clock: Clock) -> Arc<Self> {
        Arc::new(Self { keys: RwLock::new(keys), clock })
    }

    /// Credentials that sign every attempt with the keys of that time.
    pub fn credentials(self: &Arc<Self>, region: &SmolStr, service: &'static str) -> Credentials {
        let (ring, region) = (self.clone(), region.clone());
        Credentials::signing(move |request| {
            let (keys, now) = (ring.keys.read().clone(), ring.clock.now());
            if let Some(at) = keys.expires.filter(|at| *at <= now) {
                return Err(Expired { id: keys.id, at }.into());
            }
            Ok(sign(request, &keys, &Scope { region: &region, service, now })?)
        })
    }

    /// Fetches keys again whenever that is due, until the process ends. Returns at once if they do not expire.
    pub async fn renew<E: std::error::Error>(
        self: Arc<Self>,
        fetch: impl AsyncFn() -> Result<Keys, E>,
        shutdown: Signal,
    ) {
        let mut has_failed = false;
        loop {
            let Some(expires) = self.keys.read().expires else { return };
            let pause = pause(self.clock.until(expires), has_failed);
            tokio::select! {
                biased;
                () = shutdown.wait() => return,
                () = tokio::time::sleep(pause) => {}
            }
            has_failed = match fetch().await {
                Ok(keys) => {
                    tracing::debug!(id = keys.id, expires = ?keys.expires, "renewed the access key");
                    *self.keys.write() = keys;
                    false
                }
                Err(error) => {
                    let error = Chain(&error).to_string();
                    tracing::warn!(error, "cannot renew the access key; trying again");
                    true
                }
            };
        }
    }
}

/// How long to wait before keys are fetched that are still valid for `left`.
fn pause(left: Duration, has_failed: bool) -> Duration {
    if has_failed { RETRY } else { left.saturating_sub(BEFORE).max(RETRY) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use flyball_cloud::kit::http::{Call, Http};
    use flyball_runtime::Metrics;

    use super::*;

    fn keys(id: &str, expires: Option<Timestamp>) -> Keys {
        Keys { id: id.to_owned(), secret: "s".to_owned(), token: None, expires }
    }

    #[test]
    fn keys_are_fetched_before_they_expire_and_soon_after_a_failure() {
        #[rustfmt::skip]
        let table = [
            // left   failed  pause
            (3600,     false,  3300),
            (301,      false,  30),
            (0,        false,  30),
            (3600,     true,   30),
        ];
        for (left, failed, want) in table {
            assert_eq!(pause(Duration::from_secs(left), failed).as_secs(), want, "{left} {failed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_renewed_until_the_process_ends_and_a_failure_keeps_the_old_ones() {
        let epoch: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let clock = Clock::virtual_from(epoch);
        let hour = Duration::from_secs(3600);
        let ring = Keyring::new(keys("0", Some(epoch + hour)), clock);
        let (sender, shutdown) = Signal::new();
        let calls = Arc::new(AtomicU64::new(0));
        let counted = calls.clone();
        let fetch = async move || {
            let call = counted.fetch_add(1, Ordering::Relaxed) + 1;
            match call {
                2 => Err(std::io::Error::other("busy")),
                _ => Ok(keys(&call.to_string(), Some(clock.now() + hour))),
            }
        };
        let renewing = tokio::spawn(ring.clone().renew(fetch, shutdown));
        let id = |seconds: u64| {
            let ring = ring.clone();
            async move {
                let at = epoch + Duration::from_secs(seconds);
                tokio::time::sleep(clock.until(at)).await;
                ring.keys.read().id.clone()
            }
        };
        assert_eq!(id(3290).await, "0");
        assert_eq!(id(3310).await, "1");
        // 3300 s later the second call fails; half a minute later the third does not.
        assert_eq!(id(6610).await, "1");
        assert_eq!(id(6640).await, "3");
        sender.set();
        renewing.await.unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn expired_keys_are_not_used() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let ring = Keyring::new(keys("AKIA", Some(now)), Clock::stopped_at(now));
        let http = Http::new("ec2", "http://127.0.0.1:1", &Metrics::default()).unwrap();
        let http = http.with_credentials(ring.credentials(&"eu-central-1".into(), "ec2"));
        let error = http.send(Call::post("DescribeX", "/")).await.unwrap_err();
        let shown = Chain(&error).to_string();
        assert!(shown.contains("the access key AKIA has expired at 2026-03-01T12:00:00Z"), "{shown}");
    }
}
