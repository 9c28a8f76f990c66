//! Validates a write to a status: impossible counts, and conditions that contradict each other or the previous
//! ones. Controllers rely on these rules as much as users do.

use serde_json::Value;

use super::{At, Faults, batch, names, quoting};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;

/// Counts that must not be negative, by kind.
const COUNTS: [(&str, &[&str]); 5] = [
    (
        "Deployment",
        &["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"],
    ),
    (
        "StatefulSet",
        &["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ),
    (
        "DaemonSet",
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    ),
    ("PodDisruptionBudget", &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]),
    ("HorizontalPodAutoscaler", &["currentReplicas", "desiredReplicas"]),
];

/// Counts that must not exceed the number of replicas, by kind.
const PARTS: [(&str, &[&str]); 2] = [
    ("Deployment", &["updatedReplicas", "readyReplicas", "availableReplicas"]),
    ("StatefulSet", &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]),
];

/// Validates the counts in the status of a workload, a budget or an autoscaler.
pub(in crate::kinds) fn counts(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let status = At::root(object).child("status");
    let of = |table: &[(&str, &'static [&'static str])]| {
        table
            .iter()
            .find(|(kind, _)| object.text("kind") == *kind)
            .map_or(&[] as &[&str], |(_, fields)| *fields)
    };
    for field in of(&COUNTS) {
        status.non_negative(&mut faults, field);
    }
    let replicas = status.int("replicas").unwrap_or(0);
    for field in of(&PARTS) {
        let count = status.int(field).unwrap_or(0);
        if count > replicas {
            faults.push(Cause::invalid(status.path(field), count, "cannot be greater than status.replicas"));
        }
    }
    faults
}

/// A namespace is active until it is being deleted, then terminating.
pub(in crate::kinds) fn namespace(new: &Value) -> Vec<Cause> {
    let phase = new.text("status.phase");
    match new.has("metadata.deletionTimestamp") {
        true if phase != "Terminating" => {
            let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
            vec![Cause::invalid("status.Phase", phase, detail)]
        }
        false if phase != "Active" => {
            let detail = "may only be 'Active' if `deletionTimestamp` is empty";
            vec![Cause::invalid("status.Phase", phase, detail)]
        }
        _ => Vec::new(),
    }
}

/// The kubelet's status of a pod.
pub(in crate::kinds) fn pod(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let status = At::root(new).child("status");
    if new.at("spec.nodeName") != old.at("spec.nodeName") {
        faults.push(Cause::forbidden("status.nodeName", "may not be changed directly"));
    }
    let nominated = status.text("nominatedNodeName");
    if nominated != old.text("status.nominatedNodeName") {
        status.may_be(&mut faults, "nominatedNodeName", names::subdomain);
        if !nominated.is_empty() && !old.text("spec.nodeName").is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            faults.push(Cause::forbidden("status.nominatedNodeName", detail));
        }
    }
    At::root(new).immutable(&mut faults, old, "status.qosClass");
    never_restarts(&mut faults, new, old);
    if let Some(first) = new.items("status.hostIPs").first()
        && first.text("ip") != new.text("status.hostIP")
    {
        faults.push(Cause::invalid("status.hostIPs[0].ip", first.text("ip"), "must be equal to `hostIP`"));
    }
    faults
}

/// A terminated container must not run again, unless the pod's restart policy allows it.
fn never_restarts(faults: &mut Faults, new: &Value, old: &Value) {
    let policy = old.text("spec.restartPolicy");
    if policy == "Always" || policy.is_empty() {
        return;
    }
    let before = |name: &str| old.items("status.containerStatuses").iter().find(|c| c.text("name") == name);
    for container in At::root(new).child("status").items("containerStatuses") {
        let Some(before) = before(container.text("name")) else { continue };
        let had_ended = before.has("state.terminated");
        let succeeded = before.int("state.terminated.exitCode").unwrap_or(0) == 0;
        let final_state = had_ended && (policy == "Never" || succeeded);
        if final_state && !container.has("state.terminated") {
            faults.push(Cause::forbidden(
                container.path("state"),
                "may not be transitioned to non-terminated state",
            ));
        }
    }
}

/// Devices can be reserved once they are allocated.
pub(in crate::kinds) fn resource_claim(new: &Value, _: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let consumers = new.items("status.reservedFor");
    if !consumers.is_empty() && !new.has("status.allocation") {
        let detail = "may not be specified when `allocated` is not set";
        faults.push(Cause::forbidden("status.reservedFor", detail));
    }
    if consumers.len() > 256 {
        faults.push(Cause::too_many("status.reservedFor", consumers.len(), 256));
    }
    faults
}

/// The conditions of a job.
struct Conditions {
    complete: bool,
    failed: bool,
    success_criteria_met: bool,
    failure_target: bool,
}

impl Conditions {
    fn of(job: &Value) -> Self {
        let holds = |kind: &str| {
            job.items("status.conditions")
                .iter()
                .any(|c| c.text("type") == kind && c.text("status") == "True")
        };
        Self {
            complete: holds("Complete"),
            failed: holds("Failed"),
            success_criteria_met: holds("SuccessCriteriaMet"),
            failure_target: holds("FailureTarget"),
        }
    }

    fn finished(&self) -> bool {
        self.complete || self.failed
    }
}

/// Validates the status of a job, and its changes. A rule applies only if one of its fields has changed, so that an old error does
/// not block a job.
pub(in crate::kinds) fn job(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let status = At::root(new).child("status");
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.non_negative(&mut faults, field);
    }
    let (now, then) = (Conditions::of(new), Conditions::of(old));
    let changed = |field: &str| new.at("status").at(field) != old.at("status").at(field);
    job_conditions(&mut faults, &now, &then);
    job_times(&mut faults, &status, &now, now.complete != then.complete, &changed);
    job_targets(&mut faults, &now, &then, &changed);
    job_finished(&mut faults, new, &now, now.finished() != then.finished(), &changed);
    job_indexes(&mut faults, new, &changed);
    let active = status.int("active").unwrap_or(0);
    if let Some(ready) =
        status.int("ready").filter(|ready| *ready > active && (changed("ready") || changed("active")))
    {
        faults.push(Cause::invalid("status.ready", ready, "cannot set more ready pods than active"));
    }
    job_exclusions(&mut faults, new, &now);
    job_transitions(&mut faults, new, old, &now, &then);
    faults
}

fn conditions(detail: &str) -> Cause {
    quoting(Fault::Invalid, "status.conditions".to_owned(), detail, "")
}

fn job_conditions(faults: &mut Faults, now: &Conditions, then: &Conditions) {
    if now.complete && now.failed && (now.complete != then.complete || now.failed != then.failed) {
        faults.push(conditions("cannot set Complete=True and Failed=true conditions"));
    }
    let target_moved = now.failure_target != then.failure_target;
    if now.complete && now.failure_target && (now.complete != then.complete || target_moved) {
        faults.push(conditions("cannot set Complete=True and FailureTarget=true conditions"));
    }
}

fn job_times(
    faults: &mut Faults,
    status: &At<'_>,
    now: &Conditions,
    turned: bool,
    changed: &dyn Fn(&str) -> bool,
) {
    let completion = status.text("completionTime");
    if turned || changed("completionTime") {
        if !completion.is_empty() && !now.complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            faults.push(Cause::invalid("status.completionTime", completion, detail));
        }
        if completion.is_empty() && now.complete {
            let detail = "completionTime is required for Complete jobs";
            faults.push(Cause::required("status.completionTime", detail));
        }
    }
    let start = status.text("startTime");
    // In canonical form, times have the order of their texts.
    if (changed("startTime") || changed("completionTime")) && !completion.is_empty() && completion < start {
        let detail = "must be equal to or after `startTime`";
        faults.push(Cause::invalid("status.completionTime", completion, detail));
    }
}

fn job_targets(faults: &mut Faults, now: &Conditions, then: &Conditions, changed: &dyn Fn(&str) -> bool) {
    if now.failed && !now.failure_target && (now.failed != then.failed || changed("failedIndexes")) {
        faults.push(conditions("cannot set Failed=True condition without the FailureTarget=true condition"));
    }
    let moved = now.complete != then.complete || now.success_criteria_met != then.success_criteria_met;
    if now.complete && !now.success_criteria_met && moved {
        faults.push(conditions(
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ));
    }
}

fn job_finished(
    faults: &mut Faults,
    job: &Value,
    now: &Conditions,
    turned: bool,
    changed: &dyn Fn(&str) -> bool,
) {
    if !now.finished() {
        return;
    }
    let status = At::root(job).child("status");
    let active = status.int("active").unwrap_or(0);
    if active > 0 && (turned || changed("active")) {
        faults.push(Cause::invalid("status.active", active, "active>0 is invalid for finished job"));
    }
    let nothing_to_do = job.flag("spec.suspend") && job.int("spec.completions") == Some(0);
    if !status.has("startTime") && (turned || changed("startTime")) && !nothing_to_do {
        faults.push(Cause::required("status.startTime", "startTime is required for finished job"));
    }
    let uncounted = status.child("uncountedTerminatedPods");
    let some = ["succeeded", "failed"].iter().any(|list| !uncounted.value.items(list).is_empty());
    if some && (turned || changed("uncountedTerminatedPods")) {
        faults.push(uncounted.invalid("must be empty for finished job"));
    }
    let terminating = status.int("terminating").unwrap_or(0);
    if terminating > 0 && (turned || changed("terminating")) {
        faults.push(Cause::invalid(
            "status.terminating",
            terminating,
            "terminating>0 is invalid for finished job",
        ));
    }
}

fn job_indexes(faults: &mut Faults, job: &Value, changed: &dyn Fn(&str) -> bool) {
    let indexed = job.text("spec.completionMode") == "Indexed";
    let completed = job.text("status.completedIndexes");
    if changed("completedIndexes") && !completed.is_empty() {
        if let Some(completions) = job.int("spec.completions")
            && let Err(fault) = batch::count_indexes(completed, completions)
        {
            let detail = format!("error parsing completedIndexes: {fault}");
            faults.push(Cause::invalid("status.completedIndexes", completed, &detail));
        }
        if !indexed {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            faults.push(Cause::invalid("status.completedIndexes", completed, detail));
        }
    }
    if changed("failedIndexes") && job.has("status.failedIndexes") && !job.has("spec.backoffLimitPerIndex") {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        faults.push(Cause::invalid("status.failedIndexes", job.text("status.failedIndexes"), detail));
    }
}

fn job_exclusions(faults: &mut Faults, job: &Value, now: &Conditions) {
    if now.success_criteria_met && now.failed {
        faults.push(conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"));
    }
    if now.success_criteria_met && now.failure_target {
        faults.push(conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"));
    }
    if job.has("spec.successPolicy") && !now.success_criteria_met && now.complete {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        faults.push(conditions(detail));
    }
}

fn job_transitions(faults: &mut Faults, new: &Value, old: &Value, now: &Conditions, then: &Conditions) {
    let terminal = [
        ("Failed", then.failed, now.failed),
        ("Complete", then.complete, now.complete),
        ("FailureTarget", then.failure_target, now.failure_target),
    ];
    for (kind, was, is) in terminal {
        if was && !is {
            faults.push(conditions(&format!("cannot disable the terminal {kind}=True condition")));
        }
    }
    let count = |job: &Value, field: &str| job.at("status").int(field).unwrap_or(0);
    let elastic = new.text("spec.completionMode") == "Indexed"
        && new.at("spec.completions") == new.at("spec.parallelism");
    for (field, may_shrink) in [("failed", false), ("succeeded", elastic)] {
        if count(new, field) < count(old, field) && !may_shrink {
            let detail = format!("cannot decrease the {field} counter");
            faults.push(Cause::invalid(format!("status.{field}"), count(new, field), &detail));
        }
    }
    let time = |job: &Value, field: &str| job.at("status").at(field).clone();
    let (finish, finished) = (time(new, "completionTime"), time(old, "completionTime"));
    if !finish.is_null() && !finished.is_null() && finish != finished {
        faults.push(Cause::invalid("status.completionTime", finish, "field is immutable"));
    }
    let (start, started) = (time(new, "startTime"), time(old, "startTime"));
    let suspended = |job: &Value, wanted: &str| {
        let mut all = job.items("status.conditions").iter();
        all.any(|c| c.text("type") == "Suspended" && c.text("status") == wanted)
    };
    let resuming = suspended(old, "True") && suspended(new, "False");
    if !started.is_null() && start != started && !resuming && !new.flag("spec.suspend") {
        let detail = "field is immutable for unsuspended job once set";
        faults.push(Cause::invalid("status.startTime", start, detail));
    }
    if then.success_criteria_met && !now.success_criteria_met {
        faults.push(conditions("cannot disable the SuccessCriteriaMet=True condition"));
    }
    if then.complete && !then.success_criteria_met && now.success_criteria_met {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        faults.push(conditions(detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_ends_in_order() {
        let (start, end) = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:05Z");
        let with = |kinds: &[&str]| -> Vec<Value> {
            kinds.iter().map(|k| json!({"type": k, "status": "True"})).collect()
        };
        let running = json!({"active": 1, "startTime": start});
        #[rustfmt::skip]
        let table = [
            ("counts",            running.clone(), json!({"active": -1, "startTime": start}),                                       vec!["status.active"]),
            ("start and end",     running.clone(), json!({"startTime": start, "completionTime": end, "conditions": with(&["SuccessCriteriaMet", "Complete"])}), vec![]),
            ("no criteria",       running.clone(), json!({"startTime": start, "completionTime": end, "conditions": with(&["Complete"])}), vec!["status.conditions"]),
            ("no end time",       running.clone(), json!({"startTime": start, "conditions": with(&["SuccessCriteriaMet", "Complete"])}), vec!["status.completionTime"]),
            ("failure at once",   running.clone(), json!({"startTime": start, "conditions": with(&["Failed"])}),                     vec!["status.conditions"]),
            ("failure announced", running.clone(), json!({"startTime": start, "conditions": with(&["FailureTarget", "Failed"])}),    vec![]),
            ("pods still run",    running.clone(), json!({"active": 1, "startTime": start, "conditions": with(&["FailureTarget", "Failed"])}), vec!["status.active"]),
            ("moved start",       running.clone(), json!({"active": 1, "startTime": end}),                                          vec!["status.startTime"]),
            ("fewer failures",    json!({"failed": 2, "startTime": start}), json!({"failed": 1, "startTime": start}),                vec!["status.failed"]),
            ("taken back",        json!({"startTime": start, "conditions": with(&["FailureTarget", "Failed"])}), json!({"startTime": start}), vec!["status.conditions", "status.conditions"]),
        ];
        for (case, old, new, want) in table {
            let object = |status: Value| json!({"kind": "Job", "spec": {"completions": 1}, "status": status});
            let fields: Vec<String> = job(&object(new), &object(old)).into_iter().map(|c| c.field).collect();
            assert_eq!(fields, want, "{case}");
        }
    }
}
