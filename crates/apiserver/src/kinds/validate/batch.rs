//! Jobs and cron jobs.

use flyball_api::cron::{Schedule, Zone};
use serde_json::{Value, json};

use super::{At, Faults, domain_path, go_struct, names, quoting, selector};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;
use crate::kinds::pod;

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
const COUNTS: [&str; 5] =
    ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"];

pub(in crate::kinds) fn job(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    generated_selector(&mut faults, object);
    job_spec(&mut faults, &spec);
    let has_selector = spec.has("selector");
    if !has_selector {
        faults.push(Cause::required(spec.path("selector"), ""));
    } else {
        selector::check(&mut faults, &spec.child("selector"));
    }
    if !selector::matches(spec.value.at("selector"), spec.value.map("template.metadata.labels")) {
        let labels = spec.child("template.metadata.labels");
        faults.push(labels.invalid("`selector` does not match template `labels`"));
    }
    faults
}

/// Without `manualSelector`, selector and labels must be those that the server generates.
fn generated_selector(faults: &mut Faults, job: &Value) {
    if job.flag("spec.manualSelector") {
        return;
    }
    let (uid, name) = (job.text("metadata.uid"), job.text("metadata.name"));
    let labels = job.at("spec.template.metadata.labels");
    for (key, wanted) in [
        ("controller-uid", uid),
        ("batch.kubernetes.io/controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
    ] {
        if job.entry("spec.template.metadata.labels", key) != Some(wanted) {
            let path = format!("spec.template.metadata.labels[{key}]");
            faults.push(Cause::invalid(path, labels.clone(), &format!("must be '{wanted}'")));
        }
    }
    let selector = job.at("spec.selector");
    let is_uid = |key: &str| selector == &json!({"matchLabels": {key: uid}});
    if !is_uid("controller-uid") && !is_uid("batch.kubernetes.io/controller-uid") {
        faults.push(Cause::invalid("spec.selector", selector.clone(), "`selector` not auto-generated"));
    }
}

/// Validates the spec of a job or of a cron job's template.
fn job_spec(faults: &mut Faults, spec: &At<'_>) {
    for field in COUNTS {
        spec.non_negative(faults, field);
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        spec.non_negative(faults, field);
    }
    spec.one_of(faults, "completionMode", &["NonIndexed", "Indexed"]);
    spec.one_of(faults, "podReplacementPolicy", &["Failed", "TerminatingOrFailed"]);
    let indexed = spec.text("completionMode") == "Indexed";
    if spec.has("managedBy") {
        spec.must_be(faults, "managedBy", domain_path);
        if spec.text("managedBy").len() > 63 {
            faults.push(Cause::too_long(spec.path("managedBy"), 63));
        }
    }
    if indexed {
        indexed_job(faults, spec);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        faults.push(Cause::required(spec.path("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(number) = spec.int(field).filter(|_| !indexed) {
            faults.push(Cause::invalid(spec.path(field), number, "requires indexed completion mode"));
        }
    }
    failure_policy(faults, spec);
    success_policy(faults, spec, indexed);
    let template = spec.child("template");
    restart_policy(faults, spec, &template);
    let mut of_template = Vec::new();
    pod::validate_template(&mut of_template, &template);
    // The policy has been validated more strictly above.
    faults.extend(of_template.into_iter().filter(|cause| !cause.field.ends_with(".restartPolicy")));
}

fn indexed_job(faults: &mut Faults, spec: &At<'_>) {
    if !spec.has("completions") {
        faults.push(Cause::required(spec.path("completions"), "when completion mode is Indexed"));
    }
    if let Some(parallelism) = spec.int("parallelism").filter(|n| *n > MAX_INDEXED_PARALLELISM) {
        let detail = format!(
            "must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        );
        faults.push(Cause::invalid(spec.path("parallelism"), parallelism, &detail));
    }
}

fn restart_policy(faults: &mut Faults, spec: &At<'_>, template: &At<'_>) {
    let path = template.path("spec.restartPolicy");
    match template.text("spec.restartPolicy") {
        // A missing policy was defaulted to Always, which no job may have.
        "" | "Always" => faults.push(Cause::required(path, "valid values: \"OnFailure\", \"Never\"")),
        "Never" => {}
        "OnFailure" if spec.has("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            faults.push(Cause::invalid(path, "OnFailure", detail));
        }
        "OnFailure" => {}
        other => faults.push(Cause::not_supported(path, other, &["OnFailure", "Never"])),
    }
}

fn failure_policy(faults: &mut Faults, spec: &At<'_>) {
    let policy = spec.child("podFailurePolicy");
    for rule in policy.items("rules") {
        rule.one_of(faults, "action", &["Count", "FailIndex", "FailJob", "Ignore"]);
        if rule.text("action") == "FailIndex" && !spec.has("backoffLimitPerIndex") {
            let detail = "requires the backoffLimitPerIndex to be set";
            faults.push(Cause::invalid(rule.path("action"), "FailIndex", detail));
        }
        let codes = rule.child("onExitCodes");
        let conditions = !rule.value.items("onPodConditions").is_empty();
        let bare = |detail: &str| quoting(Fault::Invalid, rule.path.clone(), detail, "");
        match (codes.value.is_object(), conditions) {
            (true, true) => {
                faults.push(bare("specifying both OnExitCodes and OnPodConditions is not supported"))
            }
            (false, false) => {
                faults.push(bare("specifying one of OnExitCodes and OnPodConditions is required"))
            }
            (true, false) => exit_codes(faults, &codes),
            (false, true) => {
                for condition in rule.items("onPodConditions") {
                    condition.must_be(faults, "type", names::qualified_name);
                    condition.one_of(faults, "status", &["False", "True", "Unknown"]);
                }
            }
        }
    }
    if policy.value.items("rules").len() > 20 {
        faults.push(Cause::too_many(policy.path("rules"), policy.value.items("rules").len(), 20));
    }
}

fn exit_codes(faults: &mut Faults, codes: &At<'_>) {
    codes.one_of(faults, "operator", &["In", "NotIn"]);
    let values = codes.value.items("values");
    if values.is_empty() {
        faults.push(Cause::invalid(codes.path("values"), values.to_vec(), "at least one value is required"));
    }
    for (at, value) in values.iter().enumerate() {
        if value == 0 && codes.text("operator") == "In" {
            let path = format!("{}[{at}]", codes.path("values"));
            faults.push(Cause::invalid(path, 0, "must not be 0 for the In operator"));
        }
        if values[..at].contains(value) {
            faults.push(Cause::duplicate(format!("{}[{at}]", codes.path("values")), value.clone()));
        }
    }
}

fn success_policy(faults: &mut Faults, spec: &At<'_>, indexed: bool) {
    let policy = spec.child("successPolicy");
    if policy.value.is_null() {
        return;
    }
    if !indexed {
        let rule = |rule: &Value| {
            go_struct(&[
                ("SucceededIndexes", rule.at("succeededIndexes")),
                ("SucceededCount", rule.at("succeededCount")),
            ])
        };
        let rules: Vec<String> = policy.value.items("rules").iter().map(rule).collect();
        let value = format!("{{\"Rules\":[{}]}}", rules.join(","));
        faults.push(quoting(Fault::Invalid, policy.path.clone(), &value, "requires indexed completion mode"));
        return;
    }
    if policy.value.items("rules").is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        faults.push(Cause::required(policy.path("rules"), detail));
    }
    let completions = spec.int("completions").unwrap_or(0);
    for rule in policy.items("rules") {
        success_rule(faults, &rule, completions);
    }
}

fn success_rule(faults: &mut Faults, rule: &At<'_>, completions: i64) {
    let indexes = rule.value.at("succeededIndexes").as_str();
    let count = rule.int("succeededCount");
    if indexes.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        faults.push(Cause::required(rule.path.clone(), detail));
    }
    let mut listed = None;
    if let Some(text) = indexes {
        match count_indexes(text, completions) {
            Ok(total) => listed = Some(total),
            Err(fault) => {
                listed = Some(0);
                let detail = format!("error parsing succeededIndexes: {fault}");
                faults.push(Cause::invalid(rule.path("succeededIndexes"), text, &detail));
            }
        }
    }
    let Some(count) = count else { return };
    rule.non_negative(faults, "succeededCount");
    let path = rule.path("succeededCount");
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        faults.push(Cause::invalid(path.clone(), count, &detail));
    }
    if let Some(total) = listed.filter(|total| count > *total) {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        faults.push(Cause::invalid(path, count, &detail));
    }
}

/// How many indexes a list such as `0,2-4` names.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let number = |part: &str| {
        part.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {part:?}"))
    };
    let (mut total, mut last) = (0, -1);
    for part in text.split(',') {
        let (first, end) = part.split_once('-').unwrap_or((part, part));
        let start = number(first)?;
        if start >= completions {
            return Err(format!("too large index: {first:?}"));
        }
        let end = number(end)?;
        if end >= completions {
            return Err(format!("too large index: {:?}", end.to_string()));
        }
        if start <= last {
            return Err(format!("non-increasing order, previous: {last}, current: {start}"));
        }
        if end < start {
            return Err(format!("non-increasing order, previous: {start}, current: {end}"));
        }
        total += end - start + 1;
        last = end;
    }
    Ok(total)
}

pub(in crate::kinds) fn job_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = job(new);
    let root = At::root(new);
    let suspended = |job: &Value| job.flag("spec.suspend");
    let indexed = new.text("spec.completionMode") == "Indexed";
    let (completions, parallelism) = (new.int("spec.completions"), new.int("spec.parallelism"));
    // An indexed job is resized by changing both counts to the same number.
    let resized = new.at("spec.completions") != old.at("spec.completions");
    match completions {
        Some(completions) if resized && indexed && Some(completions) != parallelism => {
            let detail = "can only be modified in tandem with spec.parallelism";
            faults.push(Cause::invalid("spec.completions", completions, detail));
        }
        _ if !indexed => root.immutable(&mut faults, old, "spec.completions"),
        _ => {}
    }
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        root.immutable(&mut faults, old, &format!("spec.{field}"));
    }
    let not_started = suspended(old) && !old.has("status.startTime");
    let template = |job: &Value| {
        let mut template = job.at("spec.template").clone();
        if not_started {
            for path in
                ["metadata", "spec.nodeSelector", "spec.affinity", "spec.tolerations", "spec.schedulingGates"]
            {
                template.pull(path);
            }
            for list in ["spec.containers", "spec.initContainers"] {
                template.items_mut(list).iter_mut().for_each(|container| drop(container.pull("resources")));
            }
        }
        template
    };
    if template(new) != template(old) {
        faults.push(Cause::invalid("spec.template", new.at("spec.template").clone(), "field is immutable"));
    }
    faults
}

pub(in crate::kinds) fn cron_job(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    if spec.require(&mut faults, "schedule") {
        let schedule = spec.text("schedule");
        let unchanged = old.is_some_and(|old| old.at("spec.schedule") == spec.value.at("schedule"));
        schedule_faults(&mut faults, &spec, schedule, unchanged);
    }
    time_zone(&mut faults, &spec);
    spec.non_negative(&mut faults, "startingDeadlineSeconds");
    spec.one_of(&mut faults, "concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.non_negative(&mut faults, field);
    }
    let job = spec.child("jobTemplate.spec");
    if job.value.flag("manualSelector") {
        faults.push(Cause::not_supported(job.path("manualSelector"), true, &["nil", "false"]));
    }
    job_spec(&mut faults, &job);
    let name = object.text("metadata.name");
    if old.is_none() && name.len() > 52 {
        faults.insert(0, Cause::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
    faults
}

fn schedule_faults(faults: &mut Faults, spec: &At<'_>, schedule: &str, unchanged: bool) {
    let path = spec.path("schedule");
    if let Err(fault) = Schedule::parse(schedule, &Zone::UTC) {
        faults.push(Cause::invalid(path.clone(), schedule, &fault.to_string()));
    }
    if schedule.contains("TZ") && spec.has("timeZone") {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        faults.push(Cause::invalid(path, schedule, detail));
    } else if schedule.contains("TZ") && !unchanged {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        faults.push(Cause::invalid(path, schedule, detail));
    }
}

fn time_zone(faults: &mut Faults, spec: &At<'_>) {
    let Some(zone) = spec.value.at("timeZone").as_str() else { return };
    let path = spec.path("timeZone");
    if zone.is_empty() {
        faults.push(Cause::invalid(path, zone, "timeZone must be nil or non-empty string"));
    } else if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.push(Cause::invalid(path, zone, detail));
    } else if let Err(fault) = Zone::load(zone, &Zone::UTC) {
        faults.push(Cause::invalid(path, zone, &fault.to_string()));
    }
}
