//! Deployments and similar kinds, jobs, autoscalers, budgets.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Cell, NAME, Printer, first_of, flag, int, or_none, since, text, wide};
use crate::kinds::json::Json;
use crate::registry::human_duration;

const CONTAINERS: &str = "spec.template.spec.containers";

pub(in crate::kinds) const DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        text("Ready"),
        text("Up-to-date"),
        text("Available"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: &[
        Cell::Name,
        Cell::With(ready_of_wanted),
        Cell::Int("status.updatedReplicas"),
        Cell::Int("status.availableReplicas"),
        Cell::Age,
        Cell::Containers(CONTAINERS),
        Cell::Images(CONTAINERS),
        Cell::Selector("spec.selector"),
    ],
};

pub(in crate::kinds) const REPLICA_SET: Printer = Printer {
    columns: &[
        NAME,
        int("Desired"),
        int("Current"),
        int("Ready"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: &[
        Cell::Name,
        Cell::Int("spec.replicas"),
        Cell::Int("status.replicas"),
        Cell::Int("status.readyReplicas"),
        Cell::Age,
        Cell::Containers(CONTAINERS),
        Cell::Images(CONTAINERS),
        Cell::Selector("spec.selector"),
    ],
};

pub(in crate::kinds) const REPLICATION_CONTROLLER: Printer = Printer {
    columns: REPLICA_SET.columns,
    cells: &[
        Cell::Name,
        Cell::Int("spec.replicas"),
        Cell::Int("status.replicas"),
        Cell::Int("status.readyReplicas"),
        Cell::Age,
        Cell::Containers(CONTAINERS),
        Cell::Images(CONTAINERS),
        Cell::Labels("spec.selector"),
    ],
};

pub(in crate::kinds) const DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        int("Desired"),
        int("Current"),
        int("Ready"),
        int("Up-to-date"),
        int("Available"),
        text("Node Selector"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: &[
        Cell::Name,
        Cell::Int("status.desiredNumberScheduled"),
        Cell::Int("status.currentNumberScheduled"),
        Cell::Int("status.numberReady"),
        Cell::Int("status.updatedNumberScheduled"),
        Cell::Int("status.numberAvailable"),
        Cell::Labels("spec.template.spec.nodeSelector"),
        Cell::Age,
        Cell::Containers(CONTAINERS),
        Cell::Images(CONTAINERS),
        Cell::Selector("spec.selector"),
    ],
};

pub(in crate::kinds) const STATEFUL_SET: Printer = Printer {
    columns: &[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")],
    cells: &[
        Cell::Name,
        Cell::With(ready_of_wanted),
        Cell::Age,
        Cell::Containers(CONTAINERS),
        Cell::Images(CONTAINERS),
    ],
};

pub(in crate::kinds) const CONTROLLER_REVISION: Printer = Printer {
    columns: &[NAME, text("Controller"), text("Revision"), AGE],
    cells: &[Cell::Name, Cell::With(controller), Cell::Int("revision"), Cell::Age],
};

pub(in crate::kinds) const POD_TEMPLATE: Printer = Printer {
    columns: &[NAME, text("Containers"), text("Images"), text("Pod Labels")],
    cells: &[
        Cell::Name,
        Cell::Containers("template.spec.containers"),
        Cell::Images("template.spec.containers"),
        Cell::Labels("template.metadata.labels"),
    ],
};

pub(in crate::kinds) const JOB: Printer = Printer {
    columns: &[
        NAME,
        text("Status"),
        text("Completions"),
        text("Duration"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: &[
        Cell::Name,
        Cell::With(job_status),
        Cell::With(completions),
        Cell::With(job_duration),
        Cell::Age,
        Cell::Containers(CONTAINERS),
        Cell::Images(CONTAINERS),
        Cell::Selector("spec.selector"),
    ],
};

const JOB_CONTAINERS: &str = "spec.jobTemplate.spec.template.spec.containers";

pub(in crate::kinds) const CRON_JOB: Printer = Printer {
    columns: &[
        NAME,
        text("Schedule"),
        text("Timezone"),
        flag("Suspend"),
        int("Active"),
        text("Last Schedule"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: &[
        Cell::Name,
        Cell::Text("spec.schedule"),
        Cell::TextOr("spec.timeZone", "<none>"),
        Cell::With(suspend),
        Cell::Count("status.active"),
        Cell::With(last_schedule),
        Cell::Age,
        Cell::Containers(JOB_CONTAINERS),
        Cell::Images(JOB_CONTAINERS),
        Cell::Selector("spec.jobTemplate.spec.selector"),
    ],
};

pub(in crate::kinds) const AUTOSCALER: Printer = Printer {
    columns: &[
        NAME,
        text("Reference"),
        text("Targets"),
        text("MinPods"),
        text("MaxPods"),
        text("Replicas"),
        AGE,
    ],
    cells: &[
        Cell::Name,
        Cell::With(|hpa, _| {
            format!("{}/{}", hpa.text("spec.scaleTargetRef.kind"), hpa.text("spec.scaleTargetRef.name"))
        }),
        Cell::With(targets),
        Cell::With(|hpa, _| hpa.int("spec.minReplicas").map_or("<unset>".to_owned(), |n| n.to_string())),
        Cell::Int("spec.maxReplicas"),
        Cell::Int("status.currentReplicas"),
        Cell::Age,
    ],
};

pub(in crate::kinds) const DISRUPTION_BUDGET: Printer = Printer {
    columns: &[NAME, text("Min Available"), text("Max Unavailable"), int("Allowed Disruptions"), AGE],
    cells: &[
        Cell::Name,
        Cell::With(|budget, _| int_or_text(budget.at("spec.minAvailable"))),
        Cell::With(|budget, _| int_or_text(budget.at("spec.maxUnavailable"))),
        Cell::Int("status.disruptionsAllowed"),
        Cell::Age,
    ],
};

fn ready_of_wanted(object: &Value, _: Timestamp) -> String {
    let (ready, wanted) = (object.int("status.readyReplicas"), object.int("spec.replicas"));
    format!("{}/{}", ready.unwrap_or(0), wanted.unwrap_or(0))
}

fn controller(revision: &Value, _: Timestamp) -> String {
    let owner = revision.items("metadata.ownerReferences").iter().find(|owner| owner.flag("controller"));
    let Some(owner) = owner else { return "<none>".to_owned() };
    let kind = owner.text("kind").to_lowercase();
    match owner.text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", owner.text("name")),
        None => format!("{kind}/{}", owner.text("name")),
    }
}

fn suspend(job: &Value, _: Timestamp) -> String {
    match job.at("spec.suspend") {
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        _ => "<unset>".to_owned(),
    }
}

fn last_schedule(job: &Value, now: Timestamp) -> String {
    match job.at("status.lastScheduleTime") {
        Value::Null => "<none>".to_owned(),
        time => since(time, now),
    }
}

/// The first of these that applies: complete or failed, being deleted, suspended, about to finish, running.
fn job_status(job: &Value, _: Timestamp) -> String {
    let holds = |kind: &str| {
        job.items("status.conditions").iter().any(|c| c.text("type") == kind && c.text("status") == "True")
    };
    let deleting = job.has("metadata.deletionTimestamp");
    ["Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet"]
        .into_iter()
        .find(|word| if *word == "Terminating" { deleting } else { holds(word) })
        .unwrap_or("Running")
        .to_owned()
}

fn completions(job: &Value, _: Timestamp) -> String {
    let succeeded = job.int("status.succeeded").unwrap_or(0);
    match (job.int("spec.completions"), job.int("spec.parallelism").unwrap_or(0)) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |path: &str| job.text(path).parse::<Timestamp>().ok();
    match time("status.startTime") {
        None => String::new(),
        Some(start) => {
            let end = time("status.completionTime").unwrap_or(now);
            human_duration(end.as_second() - start.as_second())
        }
    }
}

fn int_or_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "N/A".to_owned(),
    }
}

/// The current and the target value of the first two metrics.
fn targets(hpa: &Value, _: Timestamp) -> String {
    let current = hpa.items("status.currentMetrics");
    let all: Vec<String> = hpa
        .items("spec.metrics")
        .iter()
        .enumerate()
        .map(|(at, spec)| target(spec, current.get(at).unwrap_or(&Value::Null)))
        .collect();
    or_none(&first_of(&all, 2, ", "))
}

fn target(spec: &Value, status: &Value) -> String {
    let (key, is_resource) = match spec.text("type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let (spec, current) = (spec.at(key), status.at(key).at("current"));
    let text = |value: &Value, field: &str| value.at(field).as_str().map(str::to_owned);
    let percent = |value: &Value| value.int("averageUtilization").map(|p| format!("{p}%"));
    let average = text(spec.at("target"), "averageValue");
    let prefix = if is_resource { format!("{}: ", spec.text("name")) } else { String::new() };
    let (now, wanted, suffix) = match average {
        Some(wanted) => {
            let suffix = if matches!(key, "external" | "object") { " (avg)" } else { "" };
            (text(current, "averageValue"), wanted, suffix)
        }
        None if is_resource => {
            (percent(current), percent(spec.at("target")).unwrap_or("<auto>".to_owned()), "")
        }
        None => (text(current, "value"), text(spec.at("target"), "value").unwrap_or_default(), ""),
    };
    format!("{prefix}{}/{wanted}{suffix}", now.unwrap_or("<unknown>".to_owned()))
}
