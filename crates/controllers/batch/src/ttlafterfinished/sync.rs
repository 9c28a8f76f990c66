//! The shell: look up, decide, make sure, delete.

use std::sync::Arc;

use flyball_api::{Job, Key};
use flyball_cache::Informer;
use flyball_client::Propagation;
use flyball_runtime::metrics::{Family, Histogram, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};

use super::plan::{Decision, plan};

pub(super) const DELAY: Family = Family::histogram(
    "ttl_after_finished_controller_job_deletion_duration_seconds",
    Stability::Alpha,
    &[],
    &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2],
    "Time between when a Job could be deleted and when it was.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) jobs: Arc<Informer<Job>>,
    /// How late Jobs are deleted.
    pub(super) delay: Histogram,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(job) = self.jobs.store().get(key) else { return Ok(Next::Settled) };
        let Decision::Delete(_) = plan(&job, self.cx.clock.now()) else { return self.next(&job) };
        // The time to live may have been changed a moment ago, and what is deleted does not come back.
        let fresh: Job = match self.cx.client.get(key).await {
            Ok(fresh) => fresh,
            Err(error) if error.is_not_found() => return Ok(Next::Settled),
            Err(error) => return Err(SyncError::api(format!("reading Job {key} anew"))(error)),
        };
        let Decision::Delete(expiry) = plan(&fresh, self.cx.clock.now()) else { return self.next(&fresh) };
        let options = exactly(&fresh.metadata).propagation(Propagation::Foreground);
        let why = format!("it has ended, and its time was up at {expiry}");
        match self.cx.writer(key).delete::<Job>(key, options, why).await {
            Ok(()) => {
                let late = self.cx.clock.now().duration_since(expiry).as_secs_f64();
                self.delay.observe(late);
                Ok(Next::Settled)
            }
            Err(error) if error.is_not_found() => Ok(Next::Settled),
            Err(error) => Err(SyncError::api(format!("deleting Job {key}"))(error)),
        }
    }
}

impl Controller {
    fn next(&self, job: &Job) -> Result<Next, SyncError> {
        match plan(job, self.cx.clock.now()) {
            Decision::Wait(left) => Ok(Next::After(left)),
            Decision::Unknown => {
                let what = format!("Job {} has ended, but does not say when", job.metadata.key());
                Err(SyncError::invalid(what))
            }
            Decision::Leave | Decision::Delete(_) => Ok(Next::Settled),
        }
    }
}
