//! The shell: look up, answer, clean up.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{
    Key, Object, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice, manifest_with_status,
};
use flyball_cache::Informer;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError, exactly};
use tokio::time::Instant;

use super::plan::{answer, reason_to_delete};
use super::{BY_DRIVER, HOLDERS};

const PERIOD: Duration = Duration::from_secs(10 * 60);
const SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
static PROCESSED: Family = Family::counter(
    "resourcepoolstatusrequest_controller_requests_processed_total",
    Stability::Alpha,
    &["driver_name"],
    "Requests that were answered, or could not be.",
);
static ERRORS: Family = Family::counter(
    "resourcepoolstatusrequest_controller_request_processing_errors_total",
    Stability::Alpha,
    &["driver_name"],
    "Requests whose answer could not be written.",
);
static DURATION: Family = Family::histogram(
    "resourcepoolstatusrequest_controller_request_processing_duration_seconds",
    Stability::Alpha,
    &["driver_name"],
    SECONDS,
    "How long it took to answer a request.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<ResourcePoolStatusRequest>>,
    pub(super) slices: Arc<Informer<ResourceSlice>>,
    pub(super) claims: Arc<Informer<ResourceClaim>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let pending = self.requests.store().get(key).filter(|request| request.status.is_none());
        let Some(request) = pending else { return Ok(Next::Settled) };
        let (started, driver) = (Instant::now(), request.spec.driver.as_str());
        let mut slices = self.slices.store().by(&BY_DRIVER, driver);
        slices.sort_unstable_by_key(|slice| slice.key());
        let claims = self.claims.store().by(&HOLDERS, driver);
        let Some(status) = answer(&request, &slices, &claims, self.cx.clock.now()) else {
            return Ok(Next::Settled);
        };
        let body = manifest_with_status(&*request, &status);
        let why = "it asked how many devices are left";
        let written = self.cx.writer(key).update_status::<ResourcePoolStatusRequest>(key, &body, why).await;
        self.cx.metrics.counter(&PROCESSED, &[driver]).inc();
        self.cx.metrics.histogram(&DURATION, &[driver]).observe(started.elapsed().as_secs_f64());
        match written {
            Err(error) if error.is_not_found() => Ok(Next::Settled),
            Err(error) => {
                self.cx.metrics.counter(&ERRORS, &[driver]).inc();
                Err(SyncError::api(format!("answering request {key}"))(error))
            }
            Ok(_) => Ok(Next::Settled),
        }
    }
}

impl Controller {
    /// Every ten minutes, deletes what has had its time.
    pub(super) async fn clean(&self) {
        loop {
            let now = self.cx.clock.now();
            let mut requests = self.requests.store().list();
            requests.sort_unstable_by_key(|request| request.key());
            for request in requests {
                let Some(why) = reason_to_delete(&request, now) else { continue };
                let (key, options) = (request.key(), exactly(&request.metadata));
                let writer = self.cx.writer(&key).unawaited();
                if let Err(error) = writer.delete::<ResourcePoolStatusRequest>(&key, options, why).await
                    && !error.is_not_found()
                {
                    tracing::warn!(request = %key, error = %Chain(&error), "cannot delete an old request; trying again in ten minutes");
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    }
}
