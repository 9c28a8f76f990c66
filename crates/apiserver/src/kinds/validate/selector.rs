//! Label selectors: whether they are well formed, and whether they match labels.

use serde_json::{Map, Value};

use super::{At, Faults, go_struct, names};
use crate::invalid::Cause;
use crate::kinds::json::Json;
use crate::selector::LabelSelector;

/// Validates a label selector.
pub(in crate::kinds) fn check(faults: &mut Faults, at: &At<'_>) {
    at.labels(faults, "matchLabels");
    for expression in at.items("matchExpressions") {
        operator(faults, &expression, &[]);
        expression.must_be(faults, "key", names::qualified_name);
        for value in expression.items("values") {
            value.must_be(faults, "", names::label_value);
        }
    }
}

/// Validates the operator of a requirement, and the number of its values. `comparisons` are the operators that compare with one number:
/// only node selectors have them.
pub(in crate::kinds) fn operator(faults: &mut Faults, requirement: &At<'_>, comparisons: &[&str]) {
    let values = requirement.value.items("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            faults.push(Cause::required(requirement.path("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            faults.push(Cause::forbidden(requirement.path("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        comparison if comparisons.contains(&comparison) => {
            if values.len() != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                faults.push(Cause::required(requirement.path("values"), detail));
            }
        }
        other => {
            let detail = "not a valid selector operator";
            faults.push(Cause::invalid(requirement.path("operator"), other, detail));
        }
    }
}

/// Whether a selector (as an object) is well formed and matches; an absent selector matches nothing.
pub(in crate::kinds) fn matches(selector: &Value, labels: Option<&Map<String, Value>>) -> bool {
    LabelSelector::from_object(selector).is_some_and(|selector| selector.matches_map(labels))
}

/// The selector as upstream prints it.
pub(in crate::kinds) fn text(selector: &Value) -> String {
    let expressions: Vec<String> = selector
        .items("matchExpressions")
        .iter()
        .map(|expression| {
            let mut fields = vec![("key", expression.at("key")), ("operator", expression.at("operator"))];
            if !expression.items("values").is_empty() {
                fields.push(("values", expression.at("values")));
            }
            go_struct(&fields)
        })
        .collect();
    let mut parts = Vec::new();
    if selector.has("matchLabels") {
        parts.push(format!("\"matchLabels\":{}", selector.at("matchLabels")));
    }
    if !expressions.is_empty() {
        parts.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

/// Whether a selector has no requirements.
pub(in crate::kinds) fn is_empty(selector: &Value) -> bool {
    let no_labels = selector.map("matchLabels").is_none_or(|labels| labels.is_empty());
    no_labels && selector.items("matchExpressions").is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_labels() {
        let labels = json!({"a": "b", "c": "d"});
        #[rustfmt::skip]
        let table = [
            ("equal",         json!({"matchLabels": {"a": "b"}}),                                                     true),
            ("other value",   json!({"matchLabels": {"a": "x"}}),                                                     false),
            ("in",            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "b"]}]}),    true),
            ("not in",        json!({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["x"]}]}),      true),
            ("exists",        json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]}),                      true),
            ("missing",       json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}),                false),
            ("empty matches", json!({}),                                                                              true),
            ("absent does not", Value::Null,                                                                          false),
        ];
        for (case, selector, want) in table {
            assert_eq!(matches(&selector, labels.as_object()), want, "{case}");
        }
    }

    #[test]
    fn an_operator_takes_none_one_or_some_values() {
        #[rustfmt::skip]
        let table = [
            // operator      values              in a label selector  in a node selector
            ("In",           json!(["a", "b"]),  "",                  ""),
            ("NotIn",        json!([]),          "values",            "values"),
            ("Exists",       json!([]),          "",                  ""),
            ("DoesNotExist", json!(["a"]),       "values",            "values"),
            ("Gt",           json!(["1"]),       "operator",          ""),
            ("Lt",           json!(["1", "2"]),  "operator",          "values"),
            ("Near",         json!([]),          "operator",          "operator"),
        ];
        for (name, values, label, node) in table {
            let requirement = json!({"key": "k", "operator": name, "values": values});
            for (comparisons, want) in [(&[][..], label), (&["Gt", "Lt"], node)] {
                let mut faults = Vec::new();
                operator(&mut faults, &At::root(&requirement), comparisons);
                let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
                assert_eq!(fields.join(" "), want, "{name} {values} {comparisons:?}");
            }
        }
    }
}
