//! The Job that a CronJob starts, as it is sent to the server. Pure.

use flyball_api::cron::Zone;
use flyball_api::{CronJob, Job, Timestamp};
use flyball_common::adoption::controller_reference;
use serde_json::{Map, Value, json};

/// The annotation with the time at which a Job was due.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The name of the Job of one start. It is derived from the start, so that no start can be made twice.
pub fn job_name(cron: &CronJob, start: Timestamp) -> String {
    format!("{}-{}", cron.metadata.name, start.as_second() / 60)
}

/// The start for which a Job of this CronJob was created, if its annotation and its name agree.
pub fn start_of(cron: &CronJob, job: &Job) -> Option<Timestamp> {
    let start: Timestamp = job.metadata.annotations.get(SCHEDULED)?.parse().ok()?;
    (job.metadata.name == job_name(cron, start)).then_some(start)
}

/// The Job of one start; the annotation has its time in `zone`.
pub fn job(cron: &CronJob, start: Timestamp, zone: &Zone) -> Value {
    let template = &cron.spec.job_template;
    let text = |pairs: &flyball_api::Labels| {
        pairs.iter().map(|(key, value)| (key.to_owned(), value.into())).collect::<Map<String, Value>>()
    };
    let mut annotations = text(&template.metadata.annotations);
    annotations.insert(SCHEDULED.to_owned(), zone.format(start).into());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(cron, start),
            "namespace": cron.metadata.namespace,
            "labels": text(&template.metadata.labels),
            "annotations": annotations,
            "ownerReferences": [controller_reference(cron)],
        },
        "spec": template.spec,
    })
}
