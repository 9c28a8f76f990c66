//! The shell: look up, plan, plan again over what the server has, execute.

use std::sync::Arc;

use flyball_api::{Job, Key};
use flyball_cache::Informer;
use flyball_runtime::metrics::{Family, Histogram, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::plan;

pub(super) const DELAY: Family = Family::histogram(
    "ttl_after_finished_controller_job_deletion_duration_seconds",
    Stability::Alpha,
    &[],
    &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2],
    "The time it took to delete the job since it became eligible for deletion",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) jobs: Arc<Informer<Job>>,
    pub(super) delay: Histogram,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let executor = self.cx.executor(key);
        let mut planned = match self.jobs.store().get(key) {
            Some(job) => plan(&job, self.cx.clock.now()),
            None => Default::default(),
        };
        if !planned.writes().is_empty() {
            // The TTL may have changed on the server, and a deletion cannot be undone.
            let live = self.cx.find::<Job>(key).await?;
            planned = live.map(|live| plan(&live, self.cx.clock.now())).unwrap_or_default();
        }
        let done = executor.run(planned).await;
        for deleted in done.outcome.written() {
            self.delay.observe(self.cx.clock.now().duration_since(deleted.tag).as_secs_f64());
        }
        done.result()
    }
}
