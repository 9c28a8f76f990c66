//! Deletes finished Jobs once their TTL has expired.
//!
//! - **Promise**: a Job with `spec.ttlSecondsAfterFinished` is deleted, its pods first, once that time has passed
//!   since it finished.
//! - **Watches** Jobs. **Writes**: deletes Jobs, nothing else.
//! - Upstream: `pkg/controller/ttlafterfinished`.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::Job;
use flyball_runtime::{Context, StartError, Tasks};

/// The name of the controller.
pub const NAME: &str = "ttl-after-finished-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("ttl_jobs_to_delete");
    let jobs = cx.informer::<Job>();
    tasks
        .feed(&jobs, &queue, |change| change.new.is_some_and(|job| plan::expires(job)).then(|| change.key()));
    let workers = cx.config.ttl_after_finished_controller.concurrent_ttl_syncs;
    let delay = cx.metrics.histogram(&sync::DELAY, &[]);
    let controller = sync::Controller { cx, jobs, delay };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
