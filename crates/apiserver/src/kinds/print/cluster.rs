//! Nodes, namespaces, events, access, certificates, admission, devices and other kinds of the cluster.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Cell, NAME, Printer, flag, int, or_none, since, text, wide};
use crate::kinds::json::Json;
use crate::registry::{Column, human_duration};

pub(in crate::kinds) const NODE: Printer = Printer {
    columns: &[
        NAME,
        text("Status"),
        text("Roles"),
        AGE,
        text("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells: &[
        Cell::Name,
        Cell::With(node_status),
        Cell::With(node_roles),
        Cell::Age,
        Cell::Text("status.nodeInfo.kubeletVersion"),
        Cell::With(|node, _| node_address(node, "InternalIP")),
        Cell::With(|node, _| node_address(node, "ExternalIP")),
        Cell::With(|node, _| or_unknown(node.text("status.nodeInfo.osImage"))),
        Cell::With(kernel),
        Cell::With(|node, _| or_unknown(node.text("status.nodeInfo.containerRuntimeVersion"))),
    ],
};

pub(in crate::kinds) const NAMESPACE: Printer = Printer {
    columns: &[NAME, text("Status"), AGE],
    cells: &[Cell::Name, Cell::Text("status.phase"), Cell::Age],
};

pub(in crate::kinds) const CONFIG_MAP: Printer = Printer {
    columns: &[NAME, text("Data"), AGE],
    cells: &[Cell::Name, Cell::Number(|map| entries(map, "data") + entries(map, "binaryData")), Cell::Age],
};

pub(in crate::kinds) const SECRET: Printer = Printer {
    columns: &[NAME, text("Type"), text("Data"), AGE],
    cells: &[Cell::Name, Cell::Text("type"), Cell::Count("data"), Cell::Age],
};

pub(in crate::kinds) const COMPONENT_STATUS: Printer = Printer {
    columns: &[NAME, text("Status"), text("Message"), text("Error")],
    cells: &[
        Cell::Name,
        Cell::With(|status, _| {
            match status.items("conditions").iter().find(|c| c.text("type") == "Healthy") {
                Some(healthy) if healthy.text("status") == "True" => "Healthy".to_owned(),
                Some(_) => "Unhealthy".to_owned(),
                None => "Unknown".to_owned(),
            }
        }),
        Cell::With(|status, _| {
            status.items("conditions").first().map_or(String::new(), |c| c.text("message").to_owned())
        }),
        Cell::With(|status, _| {
            status.items("conditions").first().map_or(String::new(), |c| c.text("error").to_owned())
        }),
    ],
};

pub(in crate::kinds) const QUOTA: Printer = Printer {
    columns: &[NAME, text("Request"), text("Limit"), AGE],
    cells: &[
        Cell::Name,
        Cell::With(|quota, _| used_of_hard(quota, false)),
        Cell::With(|quota, _| used_of_hard(quota, true)),
        Cell::Age,
    ],
};

pub(in crate::kinds) const EVENT: Printer = Printer {
    columns: &[
        text("Last Seen"),
        text("Type"),
        text("Reason"),
        text("Object"),
        wide("Subobject"),
        wide("Source"),
        text("Message"),
        wide("First Seen"),
        wide("Count"),
        Column { format: "name", ..wide("Name") },
    ],
    cells: &[
        Cell::With(last_seen),
        Cell::Text("type"),
        Cell::Text("reason"),
        Cell::With(involved),
        Cell::Text("involvedObject.fieldPath"),
        Cell::With(event_source),
        Cell::With(|event, _| event.text("message").trim().to_owned()),
        Cell::With(first_seen),
        Cell::Number(|event| event.int("series.count").or_else(|| event.int("count")).unwrap_or(1)),
        Cell::Name,
    ],
};

pub(in crate::kinds) const LEASE: Printer = Printer {
    columns: &[NAME, text("Holder"), AGE],
    cells: &[Cell::Name, Cell::Text("spec.holderIdentity"), Cell::Age],
};

pub(in crate::kinds) const BINDING: Printer = Printer {
    columns: &[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")],
    cells: &[
        Cell::Name,
        Cell::With(|binding, _| format!("{}/{}", binding.text("roleRef.kind"), binding.text("roleRef.name"))),
        Cell::Age,
        Cell::With(|binding, _| subjects(binding, "User")),
        Cell::With(|binding, _| subjects(binding, "Group")),
        Cell::With(|binding, _| subjects(binding, "ServiceAccount")),
    ],
};

pub(in crate::kinds) const SIGNING_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        AGE,
        text("SignerName"),
        text("Requestor"),
        text("RequestedDuration"),
        text("Condition"),
    ],
    cells: &[
        Cell::Name,
        Cell::Age,
        Cell::TextOr("spec.signerName", "<none>"),
        Cell::Text("spec.username"),
        Cell::With(|csr, _| csr.int("spec.expirationSeconds").map_or("<none>".to_owned(), human_duration)),
        Cell::With(signing_state),
    ],
};

pub(in crate::kinds) const PRIORITY_CLASS: Printer = Printer {
    columns: &[NAME, int("Value"), flag("Global-Default"), AGE, text("PreemptionPolicy")],
    cells: &[
        Cell::Name,
        Cell::Int("value"),
        Cell::Flag("globalDefault"),
        Cell::Age,
        Cell::Text("preemptionPolicy"),
    ],
};

pub(in crate::kinds) const RUNTIME_CLASS: Printer = Printer {
    columns: &[NAME, text("Handler"), AGE],
    cells: &[Cell::Name, Cell::Text("handler"), Cell::Age],
};

pub(in crate::kinds) const WEBHOOKS: Printer = Printer {
    columns: &[NAME, int("Webhooks"), AGE],
    cells: &[Cell::Name, Cell::Count("webhooks"), Cell::Age],
};

pub(in crate::kinds) const VALIDATING_POLICY: Printer = Printer {
    columns: &[NAME, int("Validations"), text("ParamKind"), AGE],
    cells: &[Cell::Name, Cell::Count("spec.validations"), Cell::With(parameter_kind), Cell::Age],
};

pub(in crate::kinds) const MUTATING_POLICY: Printer = Printer {
    columns: &[NAME, int("Mutations"), text("ParamKind"), AGE],
    cells: &[Cell::Name, Cell::Count("spec.mutations"), Cell::With(parameter_kind), Cell::Age],
};

pub(in crate::kinds) const POLICY_BINDING: Printer = Printer {
    columns: &[NAME, text("PolicyName"), text("ParamRef"), AGE],
    cells: &[Cell::Name, Cell::Text("spec.policyName"), Cell::With(parameter_reference), Cell::Age],
};

pub(in crate::kinds) const API_SERVICE: Printer = Printer {
    columns: &[NAME, text("Service"), text("Available"), AGE],
    cells: &[Cell::Name, Cell::With(api_service_target), Cell::With(api_service_state), Cell::Age],
};

pub(in crate::kinds) const FLOW_SCHEMA: Printer = Printer {
    columns: &[
        NAME,
        text("PriorityLevel"),
        text("MatchingPrecedence"),
        text("DistinguisherMethod"),
        AGE,
        text("MissingPL"),
    ],
    cells: &[
        Cell::Name,
        Cell::Text("spec.priorityLevelConfiguration.name"),
        Cell::Int("spec.matchingPrecedence"),
        Cell::TextOr("spec.distinguisherMethod.type", "<none>"),
        Cell::Age,
        Cell::With(|schema, _| {
            let dangling = schema.items("status.conditions").iter().find(|c| c.text("type") == "Dangling");
            dangling.map_or("?", |condition| condition.text("status")).to_owned()
        }),
    ],
};

pub(in crate::kinds) const PRIORITY_LEVEL: Printer = Printer {
    columns: &[
        NAME,
        text("Type"),
        text("NominalConcurrencyShares"),
        text("Queues"),
        text("HandSize"),
        text("QueueLengthLimit"),
        AGE,
    ],
    cells: &[
        Cell::Name,
        Cell::Text("spec.type"),
        Cell::IntOr("spec.limited.nominalConcurrencyShares", "<none>"),
        Cell::IntOr("spec.limited.limitResponse.queuing.queues", "<none>"),
        Cell::IntOr("spec.limited.limitResponse.queuing.handSize", "<none>"),
        Cell::IntOr("spec.limited.limitResponse.queuing.queueLengthLimit", "<none>"),
        Cell::Age,
    ],
};

pub(in crate::kinds) const RESOURCE_CLAIM: Printer = Printer {
    columns: &[NAME, text("State"), AGE],
    cells: &[Cell::Name, Cell::With(claim_state), Cell::Age],
};

pub(in crate::kinds) const RESOURCE_SLICE: Printer = Printer {
    columns: &[NAME, text("Node"), text("Driver"), text("Pool"), AGE],
    cells: &[
        Cell::Name,
        Cell::Text("spec.nodeName"),
        Cell::Text("spec.driver"),
        Cell::Text("spec.pool.name"),
        Cell::Age,
    ],
};

fn entries(object: &Value, path: &str) -> i64 {
    object.map(path).map_or(0, |map| map.len() as i64)
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "<unknown>".to_owned() } else { text.to_owned() }
}

fn node_status(node: &Value, _: Timestamp) -> String {
    let ready = node.items("status.conditions").iter().rev().find(|c| c.text("type") == "Ready");
    let mut words = vec![match ready.map(|condition| condition.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if node.flag("spec.unschedulable") {
        words.push("SchedulingDisabled");
    }
    words.join(",")
}

fn node_roles(node: &Value, _: Timestamp) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in node.map("metadata.labels").into_iter().flatten() {
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if key == "kubernetes.io/role" => value.as_str().unwrap_or(""),
            None => "",
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    or_none(&roles.into_iter().collect::<Vec<_>>().join(","))
}

fn node_address(node: &Value, kind: &str) -> String {
    let found = node.items("status.addresses").iter().find(|address| address.text("type") == kind);
    found.map_or("<none>", |address| address.text("address")).to_owned()
}

fn kernel(node: &Value, _: Timestamp) -> String {
    let version = or_unknown(node.text("status.nodeInfo.kernelVersion"));
    match node.text("status.nodeInfo.architecture") {
        "" => version,
        architecture => format!("{version} ({architecture})"),
    }
}

fn used_of_hard(quota: &Value, limits: bool) -> String {
    let hard = quota.map("status.hard").into_iter().flatten();
    let parts: Vec<String> = hard
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, hard)| {
            let used = quota.entry("status.used", name).unwrap_or("0");
            format!("{name}: {used}/{}", hard.as_str().unwrap_or(""))
        })
        .collect();
    parts.join(", ")
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = if event.has("firstTimestamp") { "firstTimestamp" } else { "eventTime" };
    since(event.at(first), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if event.has("series") {
        since(event.at("series.lastObservedTime"), now)
    } else if event.has("lastTimestamp") {
        since(event.at("lastTimestamp"), now)
    } else {
        first_seen(event, now)
    }
}

fn involved(event: &Value, _: Timestamp) -> String {
    let kind = event.text("involvedObject.kind").to_lowercase();
    match event.text("involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn event_source(event: &Value, _: Timestamp) -> String {
    let first = |a: &'static str, b: &'static str| {
        if event.text(a).is_empty() { event.text(b) } else { event.text(a) }
    };
    let component = first("source.component", "reportingComponent");
    match first("source.host", "reportingInstance") {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

fn subjects(binding: &Value, kind: &str) -> String {
    let names: Vec<String> = binding
        .items("subjects")
        .iter()
        .filter(|subject| subject.text("kind") == kind)
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
            _ => subject.text("name").to_owned(),
        })
        .collect();
    names.join(", ")
}

fn signing_state(csr: &Value, _: Timestamp) -> String {
    let has = |kind: &str| csr.items("status.conditions").iter().any(|c| c.text("type") == kind);
    let mut words = vec![if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }];
    if has("Failed") {
        words.push("Failed");
    }
    if !csr.text("status.certificate").is_empty() {
        words.push("Issued");
    }
    words.join(",")
}

fn parameter_kind(policy: &Value, _: Timestamp) -> String {
    match policy.at("spec.paramKind") {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    }
}

fn parameter_reference(binding: &Value, _: Timestamp) -> String {
    let reference = binding.at("spec.paramRef");
    match (reference.text("namespace"), reference.text("name")) {
        (_, "") if reference.has("selector") => super::selector(reference.at("selector")),
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

fn api_service_target(service: &Value, _: Timestamp) -> String {
    match service.at("spec.service") {
        Value::Null => "Local".to_owned(),
        target => format!("{}/{}", target.text("namespace"), target.text("name")),
    }
}

fn api_service_state(service: &Value, _: Timestamp) -> String {
    let available = service.items("status.conditions").iter().find(|c| c.text("type") == "Available");
    match available {
        None => "Unknown".to_owned(),
        Some(condition) if condition.text("status") == "True" => "True".to_owned(),
        Some(condition) => format!("{} ({})", condition.text("status"), condition.text("reason")),
    }
}

fn claim_state(claim: &Value, _: Timestamp) -> String {
    let deleting = claim.has("metadata.deletionTimestamp");
    let mut states = Vec::new();
    if deleting {
        states.push("deleted");
    }
    if claim.has("status.allocation") {
        states.push("allocated");
        if !claim.items("status.reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleting {
        states.push("pending");
    }
    states.join(",")
}
