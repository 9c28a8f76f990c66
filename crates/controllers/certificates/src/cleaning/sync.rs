//! The shell: once an hour, look at all requests.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{CertificateSigningRequest, Object};
use flyball_cache::Informer;
use flyball_client::DeleteOptions;
use flyball_runtime::{Chain, Context, exactly};

use super::plan::reason_to_delete;

const PERIOD: Duration = Duration::from_secs(60 * 60);

pub(super) struct Cleaner {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<CertificateSigningRequest>>,
}

impl Cleaner {
    pub(super) async fn run(&self) {
        loop {
            // Upstream: cleaner.go, Run: looks at the start, too, at a cache that is still empty, and so finds nothing.
            tokio::time::sleep(PERIOD).await;
            self.look().await;
        }
    }

    async fn look(&self) {
        let now = self.cx.clock.now();
        let mut requests = self.requests.store().list();
        requests.sort_unstable_by_key(|csr| csr.key());
        for csr in requests {
            let Some(why) = reason_to_delete(&csr, now) else { continue };
            let key = csr.key();
            let writer = self.cx.writer(&key).unawaited();
            // Only as it was judged: somebody may be deciding on it just now.
            let version = Some(csr.metadata.resource_version);
            let options = DeleteOptions { resource_version: version, ..exactly(&csr.metadata) };
            let deleted = writer.delete::<CertificateSigningRequest>(&key, options, why).await;
            if let Err(error) = deleted
                && !error.is_not_found()
                && !error.is_conflict()
            {
                tracing::warn!(request = %key, error = %Chain(&error), "cannot delete a certificate request; trying again in an hour");
            }
        }
    }
}
