//! Starts Jobs when a schedule says so.
//!
//! - **Promise**: at every time of its schedule a CronJob that is not suspended has one Job started, unless the
//!   deadline has passed or Jobs that still run forbid it; of the Jobs that have ended as many are kept as asked
//!   for. A start that was missed is made up for once. No start is made twice: its time is its Job's name.
//! - **Watches** CronJobs and Jobs. **Writes** Jobs (create, delete) and the whole `status` of its CronJobs.
//! - In reading order: [`schedule`] parses the schedule, [`next`] says when it fires, [`missed`] which start is due,
//!   [`plan`] decides; [`active`] and [`history`] look after the Jobs that were started, [`status`] reports them.
//! - Upstream: `pkg/controller/cronjob`. What differs: Jobs are found by the uid of their controller and not by its
//!   name, and a Job is deleted by its uid, too. A Job that was created but not listed before a crash is listed
//!   afterwards, by its own name; upstream calls it unexpected, and may start another beside it.

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

/// The name under which the controller runs and records events.
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
            When::Never(event) => event.record(&cx.events, &ObjectRef::of(&**change.object())),
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
