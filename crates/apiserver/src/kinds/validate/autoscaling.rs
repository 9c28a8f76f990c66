//! Horizontal pod autoscalers.

use serde_json::Value;

use super::{At, Faults, names};
use crate::invalid::Cause;
use crate::kinds::json::Json;
use crate::kinds::quantity::Quantity;

const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub(in crate::kinds) fn autoscaler(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    let (low, high) = (spec.int("minReplicas"), spec.int("maxReplicas").unwrap_or(0));
    if let Some(low) = low.filter(|low| *low < 1) {
        faults.push(Cause::invalid(spec.path("minReplicas"), low, "must be greater than or equal to 1"));
    }
    if high < 1 {
        faults.push(Cause::required(spec.path("maxReplicas"), "must be set and greater than 0"));
    }
    if low.is_some_and(|low| high < low) {
        let detail = "must be greater than or equal to `minReplicas`";
        faults.push(Cause::invalid(spec.path("maxReplicas"), high, detail));
    }
    target(&mut faults, &spec.child("scaleTargetRef"));
    grouped(&mut faults, &spec.child("scaleTargetRef"));
    metrics(&mut faults, &spec, low);
    for direction in ["scaleUp", "scaleDown"] {
        scaling_rules(&mut faults, &spec.child("behavior").child(direction));
    }
    faults
}

fn target(faults: &mut Faults, target: &At<'_>) {
    target.must_be_named(faults, "kind", names::path_segment);
    target.must_be_named(faults, "name", names::path_segment);
}

/// The scale target must have an API group; the object of a metric need not.
fn grouped(faults: &mut Faults, target: &At<'_>) {
    let version = target.text("apiVersion");
    if !version.contains('/') && target.text("kind") != "ReplicationController" {
        faults.push(Cause::invalid(target.path("apiVersion"), version, "apiVersion must specify API group"));
    }
}

fn metrics(faults: &mut Faults, spec: &At<'_>, low: Option<i64>) {
    let mut outside = false;
    for metric in spec.items("metrics") {
        let kind = metric.text("type");
        outside |= matches!(kind, "Object" | "External");
        let Some((_, key)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
            let allowed = SOURCES.map(|(name, _)| name);
            match kind {
                "" => faults.push(Cause::required(metric.path("type"), "must specify a metric source type")),
                // Upstream reports it twice.
                _ => faults.extend([0, 1].map(|_| Cause::not_supported(metric.path("type"), kind, &allowed))),
            }
            continue;
        };
        let source = metric.child(key);
        if source.value.is_null() {
            let detail = "must populate information for the given metric source";
            faults.push(Cause::required(source.path.clone(), detail));
            continue;
        }
        metric_source(faults, key, &source);
        for (other, _) in SOURCES.iter().map(|(_, key)| (key, ())).filter(|(other, _)| other != &key) {
            if metric.has(other) {
                let detail = "must populate the given metric source only";
                faults.push(Cause::forbidden(metric.path(other), detail));
            }
        }
    }
    if low == Some(0) && !outside {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        faults.push(Cause::forbidden(spec.path("metrics"), detail));
    }
}

fn metric_source(faults: &mut Faults, key: &str, source: &At<'_>) {
    let wanted = source.child("target");
    match key {
        "resource" | "containerResource" => {
            if source.text("name").is_empty() {
                faults.push(Cause::required(source.path("name"), "must specify a resource name"));
            }
            if key == "containerResource" && source.text("container").is_empty() {
                faults.push(Cause::required(source.path("container"), "must specify a container"));
            }
            let (value, percent) = (wanted.has("averageValue"), wanted.has("averageUtilization"));
            if !value && !percent {
                let detail = "must set either a target raw value or a target utilization";
                faults.push(Cause::required(wanted.path("averageUtilization"), detail));
            }
            if value && percent {
                let detail = "may not set both a target raw value and a target utilization";
                faults.push(Cause::forbidden(wanted.path("averageValue"), detail));
            }
        }
        "pods" => {
            metric_name(faults, source);
            if !wanted.has("averageValue") {
                faults.push(Cause::required(
                    wanted.path("averageValue"),
                    "must specify a positive target averageValue",
                ));
            }
        }
        _ => {
            metric_name(faults, source);
            if key == "object" {
                target(faults, &source.child("describedObject"));
            }
            match (wanted.has("value"), wanted.has("averageValue")) {
                (false, false) => {
                    let detail = "must set either a target value for metric or a per-pod target";
                    faults.push(Cause::required(wanted.path("averageValue"), detail));
                }
                (true, true) if key == "external" => {
                    let detail = "may not set both a target value for metric and a per-pod target";
                    faults.push(Cause::forbidden(wanted.path("value"), detail));
                }
                _ => {}
            }
        }
    }
    metric_target(faults, &wanted);
}

/// The selector of a metric is not validated, as in upstream.
fn metric_name(faults: &mut Faults, source: &At<'_>) {
    source.child("metric").must_be_named(faults, "name", names::path_segment);
}

fn metric_target(faults: &mut Faults, target: &At<'_>) {
    match target.text("type") {
        "" => faults.push(Cause::required(target.path("type"), "must specify a metric target type")),
        "Utilization" | "Value" | "AverageValue" => {}
        other => {
            let detail = "must be either Utilization, Value, or AverageValue";
            faults.push(Cause::invalid(target.path("type"), other, detail));
        }
    }
    if let Some(percent) = target.int("averageUtilization").filter(|percent| *percent < 1) {
        faults.push(Cause::invalid(target.path("averageUtilization"), percent, "must be greater than 0"));
    }
    for field in ["value", "averageValue"] {
        let text = target.text(field);
        if Quantity::parse(text).is_some_and(|quantity| quantity.sign().is_le()) {
            faults.push(Cause::invalid(target.path(field), text, "must be positive"));
        }
    }
}

fn scaling_rules(faults: &mut Faults, rules: &At<'_>) {
    if rules.value.is_null() {
        return;
    }
    if let Some(window) = rules.int("stabilizationWindowSeconds") {
        let path = rules.path("stabilizationWindowSeconds");
        if window < 0 {
            faults.push(Cause::invalid(path, window, "must be greater than or equal to zero"));
        } else if window > 3600 {
            faults.push(Cause::invalid(path, window, "must be less than or equal to 3600"));
        }
    }
    rules.one_of(faults, "selectPolicy", &["Disabled", "Max", "Min"]);
    if rules.value.items("policies").is_empty() {
        faults.push(Cause::required(rules.path("policies"), "must specify at least one Policy"));
    }
    for policy in rules.items("policies") {
        policy.one_of(faults, "type", &["Percent", "Pods"]);
        for field in ["value", "periodSeconds"] {
            let number = policy.int(field).unwrap_or(0);
            if number <= 0 {
                faults.push(Cause::invalid(policy.path(field), number, "must be greater than zero"));
            }
        }
        if let Some(period) = policy.int("periodSeconds").filter(|period| *period > 1800) {
            let detail = "must be less than or equal to 1800";
            faults.push(Cause::invalid(policy.path("periodSeconds"), period, detail));
        }
    }
}
