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
        let values = expression.value.items("values");
        match expression.text("operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                faults.push(Cause::required(expression.path("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.push(Cause::forbidden(expression.path("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => faults.push(Cause::invalid(
                expression.path("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        expression.must_be(faults, "key", names::qualified_name);
        for value in expression.items("values") {
            value.must_be(faults, "", names::label_value);
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
}
