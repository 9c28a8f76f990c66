//! Jobs and cron jobs: defaults, and the selector by which a job selects its pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::apps::prints;
use super::json::Json;
use super::pod;
use super::print;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Cx, Propagation, Strategy, Subresource};

/// `batch/v1` Job.
pub(super) struct Job;
/// `batch/v1` CronJob.
pub(super) struct CronJob;

/// Sets the counts, the completion mode and the policies of a job.
pub(super) fn default_job(job: &mut Value) {
    let Some(spec) = job.at_mut("spec") else { return };
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.put("completions", 1);
    }
    spec.or_put("parallelism", 1);
    let per_index = spec.has("backoffLimitPerIndex");
    spec.or_put("backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    spec.or_put("completionMode", "NonIndexed");
    spec.or_put("suspend", false);
    let replace_when = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.or_put("podReplacementPolicy", replace_when);
    spec.or_put("manualSelector", false);
}

const JOB_NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const CONTROLLER_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

impl Strategy for Job {
    fn prepare_create(&self, _: &Cx<'_>, job: &mut Value) {
        if !job.flag("spec.manualSelector") {
            generate_selector(job);
        }
        inherit_labels(job);
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, _: &Value) {
        inherit_labels(new);
    }

    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::batch::job(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::batch::job_update(new, old)
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, old: &Value) -> Vec<Cause> {
        if sub == Subresource::Status { validate::status::job(new, old) } else { Vec::new() }
    }

    fn default_propagation(&self) -> Propagation {
        Propagation::Orphan
    }

    fn warnings(&self, job: &Value) -> Vec<String> {
        let mut warnings = pod::warnings(job, "spec.template.spec");
        let (completions, parallelism) = (job.int("spec.completions"), job.int("spec.parallelism"));
        let indexed = job.text("spec.completionMode") == "Indexed";
        if indexed && completions.unwrap_or(0) > 100_000 && parallelism.unwrap_or(0) > 10_000 {
            let text = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than \
                        10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
            warnings.push(text.to_owned());
        }
        warnings
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn field_values(&self, object: &Value) -> Vec<String> {
        vec![object.int("status.succeeded").unwrap_or(0).to_string()]
    }

    prints!(print::JOB);
}

/// Sets a selector for the job's uid, and the label on its pods. Labels of the user are kept; validation refuses them.
fn generate_selector(job: &mut Value) {
    let uid = job.text("metadata.uid").to_owned();
    let name = job.text("metadata.name").to_owned();
    if let Some(labels) = job.map_mut("spec.template.metadata.labels") {
        for (keys, value) in [(JOB_NAME, &name), (CONTROLLER_UID, &uid)] {
            for key in keys {
                labels.entry(key).or_insert_with(|| json!(value));
            }
        }
    }
    if let Some(selector) = job.map_mut("spec.selector.matchLabels") {
        selector.entry(CONTROLLER_UID[1]).or_insert_with(|| json!(uid));
    }
}

/// A job without labels gets those of its pods, including generated ones.
fn inherit_labels(job: &mut Value) {
    let labels = job.at("spec.template.metadata.labels").clone();
    if labels.is_object() && job.map("metadata.labels").is_none_or(|own| own.is_empty()) {
        job.put("metadata.labels", labels);
    }
}

impl Strategy for CronJob {
    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::batch::cron_job(object, None)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::batch::cron_job(new, Some(old))
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let mut warnings = pod::warnings(object, "spec.jobTemplate.spec.template.spec");
        let schedule = object.text("spec.schedule");
        // Together with a time zone it is refused altogether.
        if schedule.contains("TZ") && !object.has("spec.timeZone") {
            let name = if schedule.contains("CRON_TZ") { "CRON_TZ" } else { "TZ" };
            warnings.push(format!(
                "{name} in spec.schedule is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            ));
        }
        warnings
    }

    prints!(print::CRON_JOB);
}
