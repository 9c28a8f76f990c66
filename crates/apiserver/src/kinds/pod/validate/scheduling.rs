//! Validates the scheduling fields of a pod: selectors, affinities, tolerations, spreading, gates.

use serde_json::Value;

use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;
use crate::kinds::validate::{At, Faults, names, selector};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(faults: &mut Faults, spec: &At<'_>) {
    spec.labels(faults, "nodeSelector");
    let affinity = spec.child("affinity");
    node_affinity(faults, &affinity.child("nodeAffinity"));
    for side in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(faults, &affinity.child(side));
    }
    for toleration in spec.items("tolerations") {
        self::toleration(faults, &toleration);
    }
    spread(faults, spec);
    for gate in spec.items("schedulingGates") {
        let name = gate.text("name");
        let details = names::qualified_name(name);
        faults.extend(details.iter().map(|detail| Cause::invalid(gate.path.clone(), name, detail)));
    }
}

fn node_affinity(faults: &mut Faults, affinity: &At<'_>) {
    let required = affinity.child(REQUIRED);
    if required.value.is_object() {
        if required.value.items("nodeSelectorTerms").is_empty() {
            let detail = "must have at least one node selector term";
            faults.push(Cause::required(required.path("nodeSelectorTerms"), detail));
        }
        for term in required.items("nodeSelectorTerms") {
            node_term(faults, &term);
        }
    }
    for weighted in affinity.items(PREFERRED) {
        weight(faults, &weighted);
        node_term(faults, &weighted.child("preference"));
    }
}

fn node_term(faults: &mut Faults, term: &At<'_>) {
    for expression in term.items("matchExpressions") {
        selector::operator(faults, &expression, &["Gt", "Lt"]);
        expression.must_be(faults, "key", names::qualified_name);
    }
}

fn pod_affinity(faults: &mut Faults, affinity: &At<'_>) {
    for term in affinity.items(REQUIRED) {
        pod_term(faults, &term);
    }
    for weighted in affinity.items(PREFERRED) {
        weight(faults, &weighted);
        pod_term(faults, &weighted.child("podAffinityTerm"));
    }
}

fn weight(faults: &mut Faults, weighted: &At<'_>) {
    let weight = weighted.int("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        faults.push(Cause::invalid(weighted.path("weight"), weight, "must be in the range 1-100"));
    }
}

fn pod_term(faults: &mut Faults, term: &At<'_>) {
    for field in ["labelSelector", "namespaceSelector"] {
        selector::check(faults, &term.child(field));
    }
    for namespace in term.items("namespaces") {
        namespace.must_be(faults, "", names::label);
    }
    if term.text("topologyKey").is_empty() {
        faults.push(Cause::required(term.path("topologyKey"), "can not be empty"));
    }
    term.must_be(faults, "topologyKey", names::qualified_name);
}

fn toleration(faults: &mut Faults, toleration: &At<'_>) {
    let (key, value, effect) = (toleration.text("key"), toleration.text("value"), toleration.text("effect"));
    toleration.may_be(faults, "key", names::qualified_name);
    let operator = toleration.text("operator");
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        faults.push(Cause::invalid(toleration.path("operator"), operator, detail));
    }
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        faults.push(Cause::invalid(toleration.path("effect"), effect, detail));
    }
    match operator {
        "" | "Equal" => {
            let details = names::label_value(value);
            let path = toleration.path("operator");
            faults.extend(details.iter().map(|detail| Cause::invalid(path.clone(), value, detail)));
        }
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            faults.push(Cause::invalid(toleration.path("operator"), value, detail));
        }
        "Exists" => {}
        // With the gate, `allow_comparisons` removes this fault.
        "Gt" | "Lt" => {
            let all = ["Equal", "Exists", "Gt", "Lt"];
            faults.push(Cause::not_supported(toleration.path("operator"), operator, &all));
        }
        other => faults.push(Cause::not_supported(toleration.path("operator"), other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() {
        toleration.one_of(faults, "effect", &EFFECTS);
    }
}

/// With `TaintTolerationComparisonOperators`, tolerations may compare integers.
pub(crate) fn allow_comparisons(faults: &mut Vec<Cause>, object: &Value) {
    for fault in std::mem::take(faults) {
        let Some((path, value)) = compared(&fault, object) else {
            faults.push(fault);
            continue;
        };
        if value.parse::<i64>().is_ok_and(|number| number.to_string() == value) {
            continue;
        }
        let detail = "must be a valid decimal integer in canonical form";
        faults.push(Cause::invalid(format!("{path}.value"), value, detail));
    }
}

/// The toleration that a fault is about, and its value, if the fault is that it compares integers.
fn compared<'a>(fault: &Cause, object: &'a Value) -> Option<(String, &'a str)> {
    let path = fault.field.strip_suffix(".operator")?;
    let (spec, place) = path.split_once(".tolerations[")?;
    let pointer = format!("/{}/tolerations/{}", spec.replace('.', "/"), place.strip_suffix(']')?);
    let toleration = object.pointer(&pointer)?;
    let is_meant = fault.fault == Fault::NotSupported && matches!(toleration.text("operator"), "Gt" | "Lt");
    is_meant.then(|| (path.to_owned(), toleration.text("value")))
}

fn spread(faults: &mut Faults, spec: &At<'_>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for constraint in spec.items("topologySpreadConstraints") {
        let skew = constraint.int("maxSkew").unwrap_or(0);
        if skew <= 0 {
            faults.push(Cause::invalid(constraint.path("maxSkew"), skew, "must be greater than zero"));
        }
        if constraint.text("topologyKey").is_empty() {
            faults.push(Cause::required(constraint.path("topologyKey"), "can not be empty"));
        }
        constraint.one_of(faults, "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]);
        let pair = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if seen.contains(&pair) {
            let value = format!("{{{}, {}}}", pair.0, pair.1);
            let path = constraint.path("{topologyKey, whenUnsatisfiable}");
            faults.push(Cause::duplicate(path, value.as_str()));
        }
        seen.push(pair);
        if let Some(domains) = constraint.int("minDomains") {
            if domains <= 0 {
                faults.push(Cause::invalid(
                    constraint.path("minDomains"),
                    domains,
                    "must be greater than zero",
                ));
            }
            if constraint.text("whenUnsatisfiable") != "DoNotSchedule" {
                let detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway";
                faults.push(Cause::invalid(constraint.path("minDomains"), domains, detail));
            }
        }
        selector::check(faults, &constraint.child("labelSelector"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations_may_compare_integers_with_the_gate() {
        #[rustfmt::skip]
        let table = [
            // operator  value    field of the fault
            ("Gt",       "5",     ""),
            ("Lt",       "-5",    ""),
            ("Gt",       "05",    "spec.template.spec.tolerations[0].value"),
            ("Lt",       "five",  "spec.template.spec.tolerations[0].value"),
            ("Ge",       "5",     "spec.template.spec.tolerations[0].operator"),
        ];
        for (operator, value, want) in table {
            let own = json!({"key": "k", "operator": operator, "value": value});
            let object = json!({"spec": {"template": {"spec": {"tolerations": [own]}}}});
            let mut faults = vec![];
            let spec = At::root(&object).child("spec").child("template").child("spec");
            spec.items("tolerations").for_each(|own| toleration(&mut faults, &own));
            assert_eq!(faults.len(), 1, "without the gate: {operator} {value}");
            allow_comparisons(&mut faults, &object);
            let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
            assert_eq!(fields.join(" "), want, "{operator} {value}");
        }
    }
}
