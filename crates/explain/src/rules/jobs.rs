//! Jobs: suspended, failed and why, and what its pods do.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{counted, one_line, span};
use crate::world::World;

use super::common::{pods_of, problem_of};
use super::main_problem;

pub(super) fn suspended(_: &World, job: Obj<'_>) -> Vec<Finding> {
    if !job.is_true("/spec/suspend") {
        return Vec::new();
    }
    let text = "it is suspended: no pod is started";
    let advice = format!(
        "kubectl -n {} patch job {} -p '{{\"spec\":{{\"suspend\":false}}}}' (a queue such as Kueue may do so)",
        job.namespace(),
        job.name()
    );
    vec![Finding::blocks("job-suspended", job, text).advise(advice)]
}

pub(super) fn managed_elsewhere(_: &World, job: Obj<'_>) -> Vec<Finding> {
    match job.text("/spec/managedBy") {
        "" | "kubernetes.io/job-controller" => Vec::new(),
        other => vec![Finding::notes(
            "job-managed",
            job,
            format!("spec.managedBy leaves it to {other:?}: the job controller does nothing"),
        )],
    }
}

/// What its failed pods died of, if they are still there.
fn cause(world: &World, job: Obj<'_>) -> String {
    let failed = pods_of(world, job)
        .into_iter()
        .filter(|pod| pod.text("/status/phase") == "Failed" || !pod.has("Ready", "True"));
    let problem = failed
        .filter_map(|pod| main_problem(world, pod))
        .find(|problem| matches!(problem.rule, "pod-ended" | "crash" | "image"));
    problem.map(|problem| format!("; pod {}: {}", problem.about.name, problem.text)).unwrap_or_default()
}

pub(super) fn failed(world: &World, job: Obj<'_>) -> Vec<Finding> {
    let condition =
        job.conditions().find(|c| matches!(c.kind, "Failed" | "FailureTarget") && c.status == "True");
    let Some(condition) = condition else { return Vec::new() };
    let failures = counted(job.count("/status/failed"), "pod");
    let text = match condition.reason {
        "BackoffLimitExceeded" => {
            let limit = job.int("/spec/backoffLimit").unwrap_or(6);
            format!(
                "it has failed: {failures} failed, and backoffLimit allows {limit} retries{}",
                cause(world, job)
            )
        }
        "DeadlineExceeded" => {
            let limit = span(job.count("/spec/activeDeadlineSeconds"));
            format!("it has failed: it ran longer than activeDeadlineSeconds ({limit}){}", cause(world, job))
        }
        "PodFailurePolicy" => {
            format!("it has failed by its podFailurePolicy: {}", one_line(condition.message, 240))
        }
        "MaxFailedIndexesExceeded" | "FailedIndexes" => {
            let indexes = job.text("/status/failedIndexes");
            format!("it has failed: indexes {indexes} failed{}", cause(world, job))
        }
        reason => format!("it has failed ({reason}): {}", one_line(condition.message, 240)),
    };
    let advice = "a failed Job is not retried: correct it, delete it and create it again";
    vec![Finding::blocks("job-failed", job, text).advise(advice)]
}

pub(super) fn pods(world: &World, job: Obj<'_>) -> Vec<Finding> {
    if job.has("Failed", "True")
        || job.has("Complete", "True")
        || job.is_true("/spec/suspend")
        || job.is_deleting()
    {
        return Vec::new();
    }
    let pods = pods_of(world, job);
    let is_over = |pod: &Obj<'_>| matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
    let mut found = problem_of(world, pods.iter().copied().filter(|pod| !is_over(pod)));
    let failed: Vec<Obj<'_>> = pods.into_iter().filter(|pod| pod.text("/status/phase") == "Failed").collect();
    if let Some(last) = failed.last() {
        let (count, limit) = (job.count("/status/failed"), job.int("/spec/backoffLimit").unwrap_or(6));
        let cause =
            main_problem(world, *last).map(|problem| format!(": {}", problem.text)).unwrap_or_default();
        let text =
            format!("{} failed so far, backoffLimit allows {limit} retries{cause}", counted(count, "pod"));
        let finding = Finding::waits("job-pods", job, text);
        found.push(
            finding.advise("a failed pod is replaced after a back-off: 10s, doubled each time, at most 10m"),
        );
    }
    let active = job.count("/status/active");
    if found.is_empty() && active > 0 {
        let done = job.count("/status/succeeded");
        let text = match job.int("/spec/completions") {
            Some(wanted) => {
                format!("{} running, {done} of {wanted} completions done", counted(active, "pod"))
            }
            None => format!("{} running", counted(active, "pod")),
        };
        found.push(Finding::waits("job-pods", job, text));
    }
    found
}
