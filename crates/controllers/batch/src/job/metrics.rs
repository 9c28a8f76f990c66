//! Metrics of Jobs, under upstream's names.

use std::time::Duration;

use flyball_api::Job;
use flyball_api::job::JobStatus;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Metrics, Outcome};

use super::indexes::Indexes;
use super::plan::PodWrite;
use super::status::Report;
use super::tally::Tally;
use super::verdict::{End, Verdict};
use super::view::View;

const SYNC_DURATION: Family = Family::histogram(
    "job_controller_job_sync_duration_seconds",
    Stability::Stable,
    &["completion_mode", "result", "action"],
    &[
        0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384, 32.768,
        65.536,
    ],
    "The time it took to sync a job",
);
const SYNCS: Family = Family::counter(
    "job_controller_job_syncs_total",
    Stability::Stable,
    &["completion_mode", "result", "action"],
    "The number of job syncs",
);
const FINISHED: Family = Family::counter(
    "job_controller_jobs_finished_total",
    Stability::Stable,
    &["completion_mode", "result", "reason"],
    "The number of finished jobs",
);
const EXTERNAL: Family = Family::counter(
    "job_controller_jobs_by_external_controller_total",
    Stability::Alpha,
    &["controller_name"],
    "The number of Jobs managed by an external controller",
);
const PODS_FINISHED: Family = Family::counter(
    "job_controller_job_pods_finished_total",
    Stability::Stable,
    &["completion_mode", "result"],
    "The number of finished Pods that are fully tracked",
);
const POLICY_HITS: Family = Family::counter(
    "job_controller_pod_failures_handled_by_failure_policy_total",
    Stability::Beta,
    &["action"],
    "The number of failed Pods handled by failure policy with\n\t\t\trespect to the failure policy action applied based on the matched\n\t\t\trule. Possible values of the action label correspond to the\n\t\t\tpossible values for the failure policy rule action, which are:\n\t\t\t\"FailJob\", \"Ignore\" and \"Count\".",
);
const TRACKED: Family = Family::counter(
    "job_controller_terminated_pods_tracking_finalizer_total",
    Stability::Beta,
    &["event"],
    "The number of terminated pods (phase=Failed|Succeeded)\nthat have the finalizer batch.kubernetes.io/job-tracking\nThe event label can be \"add\" or \"delete\".",
);
const INDEXES: Family = Family::counter(
    "job_controller_job_finished_indexes_total",
    Stability::Alpha,
    &["status", "backoffLimit"],
    "The number of finished indexes. Possible values for the\n\t\t\tstatus label are: \"succeeded\", \"failed\". Possible values for the\n\t\t\tbackoffLimit label are: \"perIndex\" and \"global\"",
);
const PODS_MADE: Family = Family::counter(
    "job_controller_job_pods_creation_total",
    Stability::Alpha,
    &["reason", "status"],
    "The number of Pods created by the Job controller labelled with a reason for the Pod creation.\nThis metric also distinguishes between Pods created using different PodReplacementPolicy settings.\nPossible values of the \"reason\" label are:\n\"new\", \"recreate_terminating_or_failed\", \"recreate_failed\".\nPossible values of the \"status\" label are:\n\"succeeded\", \"failed\".",
);

pub(super) fn synced(metrics: &Metrics, job: &Job, action: &str, took: Duration, failed: bool) {
    let labels = [mode(job), if failed { "error" } else { "success" }, action];
    metrics.histogram(&SYNC_DURATION, &labels).observe(took.as_secs_f64());
    metrics.counter(&SYNCS, &labels).inc();
}

/// Counts a Job that another controller manages.
pub(super) fn external(metrics: &Metrics, controller: &str) {
    metrics.counter(&EXTERNAL, &[controller]).inc();
}

/// Counts an ended pod that got or lost its finalizer.
pub(super) fn tracked(metrics: &Metrics, was: bool, is: bool) {
    if was != is {
        metrics.counter(&TRACKED, &[if is { "add" } else { "delete" }]).inc();
    }
}

pub(super) fn finished(metrics: &Metrics, job: &Job, end: &End) {
    let result = if end.verdict == Verdict::Succeeded { "succeeded" } else { "failed" };
    metrics.counter(&FINISHED, &[mode(job), result, &end.reason]).inc();
}

/// Counts failures by the action of the failure policy.
pub(super) fn handled(metrics: &Metrics, report: &Report<'_>) {
    for (action, count) in &report.handled {
        metrics.counter(&POLICY_HITS, &[action]).add(*count);
    }
}

/// Counts created pods and failed attempts.
pub(super) fn created(
    metrics: &Metrics,
    view: &View<'_>,
    tally: &Tally<'_>,
    outcome: &Outcome<PodWrite<'_>>,
) {
    let only_failed = view.job.spec.pod_replacement_policy.as_deref() == Some("Failed");
    let reason = match (tally.failed > 0, tally.terminating > 0) {
        _ if !view.features.replacement_policy => "new",
        (true, _) if only_failed => "recreate_failed",
        (false, false) => "new",
        _ => "recreate_terminating_or_failed",
    };
    let (made, failed) = creations(outcome);
    for (status, count) in [("succeeded", made), ("failed", failed)] {
        if count > 0 {
            metrics.counter(&PODS_MADE, &[reason, status]).add(count as u64);
        }
    }
}

/// How many pods were created, and how many creations failed. Those that are refused because the namespace is being deleted
/// are neither.
pub(super) fn creations(outcome: &Outcome<PodWrite<'_>>) -> (usize, usize) {
    let is_creation = |tag: &PodWrite<'_>| matches!(tag, PodWrite::Create(_));
    let made = outcome.written().filter(|done| is_creation(&done.tag)).count();
    let failed = outcome.failures.iter().filter(|failure| failure.tag.as_ref().is_none_or(is_creation));
    (made, failed.count())
}

/// Counts the changes in a status that was written.
pub(super) fn counted(metrics: &Metrics, job: &Job, before: &JobStatus, after: &JobStatus) {
    let gain = |before: usize, after: usize| after.saturating_sub(before) as u64;
    let number = |count: i32| usize::try_from(count).unwrap_or(0);
    let mut succeeded = gain(number(before.succeeded), number(after.succeeded));
    if job.spec.is_indexed() {
        // Indexes beyond the present completions do not count, even if they did before.
        let completions = job.spec.completions.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        let total = |text: Option<&str>| Indexes::parse(text.unwrap_or(""), completions).total();
        succeeded = gain(total(Some(&before.completed_indexes)), total(Some(&after.completed_indexes)));
        let limit = if job.spec.backoff_limit_per_index.is_some() { "perIndex" } else { "global" };
        let failed = gain(total(before.failed_indexes.as_deref()), total(after.failed_indexes.as_deref()));
        metrics.counter(&INDEXES, &["succeeded", limit]).add(succeeded);
        if failed > 0 {
            metrics.counter(&INDEXES, &["failed", limit]).add(failed);
        }
    }
    let failed = gain(number(before.failed), number(after.failed));
    metrics.counter(&PODS_FINISHED, &[mode(job), "succeeded"]).add(succeeded);
    metrics.counter(&PODS_FINISHED, &[mode(job), "failed"]).add(failed);
}

fn mode(job: &Job) -> &'static str {
    if job.spec.is_indexed() { "Indexed" } else { "NonIndexed" }
}
