//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, Object, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};
use flyball_cache::Informer;
use flyball_runtime::metrics::{DOUBLING_SECONDS as SECONDS, Family, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::plan::{View, plan};
use super::{ALLOCATED, BY_DRIVER};

static PROCESSED: Family = Family::counter(
    "resourcepoolstatusrequest_controller_requests_processed_total",
    Stability::Alpha,
    &["driver_name"],
    "Total number of ResourcePoolStatusRequests processed",
);
static ERRORS: Family = Family::counter(
    "resourcepoolstatusrequest_controller_request_processing_errors_total",
    Stability::Alpha,
    &["driver_name"],
    "Total number of errors encountered while processing ResourcePoolStatusRequests",
);
static DURATION: Family = Family::histogram(
    "resourcepoolstatusrequest_controller_request_processing_duration_seconds",
    Stability::Alpha,
    &["driver_name"],
    SECONDS,
    "Time taken to process a ResourcePoolStatusRequest",
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
        let claims = self.claims.store().by(&ALLOCATED, driver);
        let view = View { request: &request, slices: &slices, claims: &claims, now: self.cx.clock.now() };
        let plan = plan(&view);
        let is_answered = plan.status.is_some();
        let result = self.cx.executor(key).execute(plan).await;
        if is_answered {
            self.cx.metrics.counter(&PROCESSED, &[driver]).inc();
            self.cx.metrics.histogram(&DURATION, &[driver]).observe(started.elapsed().as_secs_f64());
        }
        if result.is_err() {
            self.cx.metrics.counter(&ERRORS, &[driver]).inc();
        }
        result
    }
}
