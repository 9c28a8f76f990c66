//! Starts Jobs on a schedule.
//!
//! - **Promise**: at every time of its schedule a CronJob that is not suspended starts one Job, unless the deadline has
//!   passed or the concurrency policy forbids it. Finished Jobs are kept up to the history limits. Of several missed
//!   starts the latest is made. No start is made twice: its time is part of the name of the Job.
//! - **Watches** CronJobs and Jobs. **Writes** Jobs (create, delete) and the whole `status` of its CronJobs.
//! - In reading order: [`flyball_api::cron`] parses the schedule and computes when it fires, [`missed`] which start is due,
//!   [`plan`] decides; [`active`] and [`history`] handle the Jobs that were started, [`status`] reports them.
//! - Upstream: `pkg/controller/cronjob`. What differs: Jobs are found by the uid of their controller and not by its
//!   name, and a Job is deleted by its uid, too. A Job that was created but not listed before a crash is listed
//!   afterwards, by its name; upstream reports it as unexpected, and may start another one. If Jobs
//!   beyond the history limit are deleted, the status is written before that, and again after it.

pub mod active;
pub mod history;
pub mod invariants;
pub mod missed;
pub mod plan;
pub mod status;
mod sync;
pub mod template;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::cron::Zone;
use flyball_api::{CronJob, Job};
use flyball_common::index::by_controller;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Context, StartError, Tasks, priority};
use jiff::tz::TimeZone;

use triggers::When;

/// The name of the controller, and the source of its events.
pub const NAME: &str = "cronjob-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("cronjob");
    let (crons, jobs) = (cx.informer::<CronJob>(), cx.informer::<Job>());
    jobs.index(&by_controller());
    let local = Zone::from(TimeZone::system());
    tasks.on(&crons, {
        let (queue, cx, local) = (queue.clone(), cx.clone(), local.clone());
        move |change| match triggers::cron_changed(change, cx.clock.now(), &local) {
            When::Now => queue.add(change.key(), priority(change.origin)),
            When::After(delay) => queue.add_after(change.key(), delay),
            When::Never(event) => event.record_without_plan(&cx.events, &ObjectRef::of(&**change.object())),
        }
    });
    tasks.feed(&jobs, &queue, {
        let crons = crons.clone();
        move |change| triggers::job_changed(change, crons.store())
    });
    let workers = usize::try_from(cx.config.cron_job_controller.concurrent_cron_job_syncs).unwrap_or(1);
    let skew = cx.metrics.histogram(&sync::SKEW, &[]);
    tasks.workers(&queue, workers, Arc::new(sync::Controller { cx, crons, jobs, local, skew }));
    Ok(())
}
