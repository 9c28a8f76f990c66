//! Rules for Jobs, CronJobs and TTLs.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::values::{condition, ensure, has_condition, is_deleting, items, manager, text, uid};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("job-controller",                "never more active pods than the parallelism",       parallelism),
    rule("job-controller",                "one active pod per index",                          indexes),
    rule("job-controller",                "counts never decrease",                             counted),
    rule("job-controller",                "a pod loses its finalizer only once it is counted", freed),
    rule("job-controller",                "one Workload and one PodGroup for a gang",          gang),
    rule("job-controller",                "a pod names the PodGroup of its Job",               grouped),
    rule("cronjob-controller",            "with Forbid, no Job beside an active one",          forbidden),
    rule("cronjob-controller",            "times never move back",                             times),
    rule("cronjob-controller",            "no Job before its scheduled time",                  in_time),
    rule("ttl-after-finished-controller", "only finished Jobs, and after their TTL",           outlived),
];

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

const SCHEDULING: &str = "scheduling.k8s.io";

fn ended(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

fn parallelism(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.creates("", "pods") {
        return Ok(());
    }
    let owner = manager(&write.after);
    ensure(!owner.is_empty(), || "the pod has no controller".to_owned())?;
    let jobs = state.versions("batch", "jobs", owner);
    let most = jobs.iter().map(|job| job["spec"]["parallelism"].as_i64().unwrap_or(1)).max().unwrap_or(0);
    let live = state.live_pods(&write.account, &write.namespace, owner).len();
    ensure(i64::try_from(live).unwrap_or(i64::MAX) <= most, || format!("{live} live, {most} at most"))
}

fn indexes(state: &ServerState, write: &Write) -> Result<(), String> {
    let index = &write.after["metadata"]["annotations"][INDEX];
    if !write.creates("", "pods") || index.is_null() {
        return Ok(());
    }
    let live = state.live_pods(&write.account, &write.namespace, manager(&write.after));
    let same = live.iter().filter(|pod| pod["metadata"]["annotations"][INDEX] == *index).count();
    ensure(same <= 1, || format!("{same} live pods with index {index}"))
}

fn counted(_: &ServerState, write: &Write) -> Result<(), String> {
    if !write.changes("batch", "jobs") || uid(&write.before) != uid(&write.after) {
        return Ok(());
    }
    let count = |job: &Value, what: &str| job["status"][what].as_i64().unwrap_or(0);
    let is_elastic = write.after["spec"]["completionMode"] == "Indexed";
    for what in ["succeeded", "failed"] {
        let (before, after) = (count(&write.before, what), count(&write.after, what));
        // Indexes beyond a number of completions that has been lowered no longer count.
        let holds = after >= before || is_elastic && what == "succeeded";
        ensure(holds, || format!("{before} {what}, then {after}"))?;
    }
    ensure(!ended(&write.before) || ended(&write.after), || "it had ended, and goes on".to_owned())
}

/// A pod that succeeded keeps its finalizer until the Job's status counts it.
fn freed(state: &ServerState, write: &Write) -> Result<(), String> {
    let is_success = write.is_on("", "pods") && write.before["status"]["phase"] == "Succeeded";
    if !write.drops(TRACKING) || !is_success {
        return Ok(());
    }
    let owner = manager(&write.before);
    let jobs = state.versions("batch", "jobs", owner);
    // Indexes are recorded by number; those beyond the completions are not recorded at all.
    if jobs.iter().any(|job| job["spec"]["completionMode"] == "Indexed") {
        return Ok(());
    }
    let is_noted = |job: &Arc<Value>| {
        let uncounted = &job["status"]["uncountedTerminatedPods"]["succeeded"];
        ended(job) || is_deleting(job) || items(uncounted).any(|noted| noted == uid(&write.before))
    };
    let is_gone = state.list("batch", "jobs", Some(&write.namespace)).iter().all(|job| uid(job) != owner);
    let is_over = |job: &Arc<Value>| {
        let conditions = ["SuccessCriteriaMet", "FailureTarget"];
        conditions.iter().any(|over| has_condition(job, over))
    };
    let holds = is_gone || jobs.iter().any(|job| is_noted(job) || is_over(job));
    ensure(holds, || format!("its Job {owner} never noted it"))
}

/// Only a Job whose pods all run at once has a Workload, and never a second one; the same for the PodGroup of a Workload. One
/// that a user has made at the same time is not counted.
fn gang(state: &ServerState, write: &Write) -> Result<(), String> {
    let (is_workload, is_group) =
        (write.creates(SCHEDULING, "workloads"), write.creates(SCHEDULING, "podgroups"));
    if !is_workload && !is_group {
        return Ok(());
    }
    let owner = manager(&write.after);
    let fits = |job: &Arc<Value>| {
        let (spec, parallelism) = (&job["spec"], job["spec"]["parallelism"].as_i64().unwrap_or(1));
        let runs_all_at_once = parallelism > 1 && spec["completions"] == spec["parallelism"];
        spec["completionMode"] == "Indexed" && runs_all_at_once
    };
    ensure(state.versions("batch", "jobs", owner).iter().any(fits), || "its Job is not a gang".to_owned())?;
    let workload_name =
        |group: &Value| group["spec"]["podGroupTemplateRef"]["workload"]["workloadName"].clone();
    let is_second = |other: &&Arc<Value>| {
        manager(other) == owner
            && uid(other) != uid(&write.after)
            && state.was_made_by(&write.account, other)
            && (is_workload || workload_name(other) == workload_name(&write.after))
    };
    let others = state.list(SCHEDULING, &write.resource, Some(&write.namespace));
    let second = others.iter().find(is_second);
    ensure(second.is_none(), || format!("beside {}", second.map_or("", |other| super::values::name(other))))
}

/// A pod names the group that its template names, or a PodGroup that its Job controls.
fn grouped(state: &ServerState, write: &Write) -> Result<(), String> {
    let named = &write.after["spec"]["schedulingGroup"]["podGroupName"];
    if !write.creates("", "pods") || named.is_null() {
        return Ok(());
    }
    let owner = manager(&write.after);
    let template =
        |job: &Arc<Value>| job["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"].clone();
    let groups = state.versions_named(SCHEDULING, "podgroups", &write.namespace, text(named));
    let holds = groups.iter().any(|group| manager(group) == owner)
        || state.versions("batch", "jobs", owner).iter().any(|job| template(job) == *named);
    ensure(holds, || format!("{named} is not a PodGroup of its Job"))
}

fn forbidden(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.creates("batch", "jobs") {
        return Ok(());
    }
    let owner = manager(&write.after);
    let crons = state.versions("batch", "cronjobs", owner);
    ensure(!crons.is_empty(), || "no CronJob owns it".to_owned())?;
    if crons.iter().any(|cron| cron["spec"]["concurrencyPolicy"] != "Forbid") {
        return Ok(());
    }
    let jobs = state.list("batch", "jobs", Some(&write.namespace));
    let is_rival = |job: &&Arc<Value>| {
        manager(job) == owner
            && uid(job) != uid(&write.after)
            && !ended(job)
            && !is_deleting(job)
            && state.was_made_by(&write.account, job)
    };
    // Jobs that are not in its active list any more are no longer its own.
    let listed = crons.last().map(|cron| cron["status"]["active"].clone()).unwrap_or_default();
    let is_listed = |job: &Arc<Value>| items(&listed).any(|active| text(&active["uid"]) == uid(job));
    let rival = jobs.iter().filter(is_rival).find(|job| is_listed(job));
    ensure(rival.is_none(), || {
        format!("{} is still active", rival.map_or("", |job| super::values::name(job)))
    })
}

fn times(_: &ServerState, write: &Write) -> Result<(), String> {
    if !write.changes("batch", "cronjobs") || uid(&write.before) != uid(&write.after) {
        return Ok(());
    }
    for what in ["lastScheduleTime", "lastSuccessfulTime"] {
        let (before, after) = (text(&write.before["status"][what]), text(&write.after["status"][what]));
        ensure(before <= after, || format!("{what} was {before} and is {after}"))?;
    }
    Ok(())
}

fn in_time(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.creates("batch", "jobs") {
        return Ok(());
    }
    let at = text(&write.after["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]);
    let due = at.parse::<Timestamp>().map_err(|error| format!("scheduled for {at:?}: {error}"))?;
    ensure(due <= state.now(), || format!("due at {due}, and it is {}", state.now()))
}

fn outlived(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.deletes("batch", "jobs") {
        return Ok(());
    }
    let job = &write.before;
    let end = ["Complete", "Failed"].into_iter().filter_map(|kind| condition(job, kind));
    let end = end.filter(|end| end["status"] == "True").map(|end| text(&end["lastTransitionTime"])).next();
    let end = end.and_then(|end| end.parse::<Timestamp>().ok()).ok_or("it has not ended")?;
    let patience = job["spec"]["ttlSecondsAfterFinished"].as_i64().ok_or("it may stay for ever")?;
    let age = state.now().as_second() - end.as_second();
    ensure(age >= patience, || format!("it ended {age} s ago and may stay for {patience} s"))
}
