//! Disruption budgets and priority classes.

use serde_json::Value;

use super::{At, go_struct, quoting, selector};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;

const HIGHEST_OF_USERS: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub(in crate::kinds) fn disruption_budget(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        let value = go_struct(&[
            ("MinAvailable", spec.value.at("minAvailable")),
            ("Selector", spec.value.at("selector")),
            ("MaxUnavailable", spec.value.at("maxUnavailable")),
            ("UnhealthyPodEvictionPolicy", spec.value.at("unhealthyPodEvictionPolicy")),
        ]);
        let detail = "minAvailable and maxUnavailable cannot be both set";
        faults.push(quoting(Fault::Invalid, spec.path.clone(), &value, detail));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        spec.share(&mut faults, field);
    }
    selector::check(&mut faults, &spec.child("selector"));
    spec.one_of(&mut faults, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"]);
    faults
}

pub(in crate::kinds) fn priority_class(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    if let Some(old) = old {
        if object.int("value").unwrap_or(0) != old.int("value").unwrap_or(0) {
            faults.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        if object.at("preemptionPolicy") != old.at("preemptionPolicy") {
            faults.push(Cause::invalid(
                "preemptionPolicy",
                object.at("preemptionPolicy").clone(),
                "field is immutable",
            ));
        }
        return faults;
    }
    let (name, value) = (object.text("metadata.name"), object.int("value").unwrap_or(0));
    if name.starts_with("system-") {
        let reserved = "priority class names with 'system-' prefix are reserved for system use only. error: ";
        match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => {
                let detail = format!("{reserved}{name} is not a known system priority class");
                faults.push(Cause::forbidden("metadata.name", &detail));
            }
            Some((_, known)) if *known != value => {
                let detail = format!("{reserved}value of {name} PriorityClass must be {known}");
                faults.push(Cause::forbidden("metadata.name", &detail));
            }
            Some(_) => {}
        }
    } else if value > HIGHEST_OF_USERS {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        faults.push(Cause::forbidden("value", &detail));
    }
    root.one_of(&mut faults, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    faults
}
