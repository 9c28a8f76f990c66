//! Whether an older revision has the same template although its bytes differ: a newer API server adds defaults for new
//! fields, and omits nulls that older ones wrote. Such a difference must not replace any pod; every other must. Pure.
//!
//! Upstream: `setMatchesLatestExistingRevision`, under the gate `StatefulSetSemanticRevisionComparison`.

use serde_json::Value;

use super::defaults::complete;

/// Fields with a map, such as labels or quantities. The server omits empty maps. Everywhere else an empty object is a value
/// that a user has set.
const MAPS: [&str; 10] = [
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "userAnnotations",
    "volumeAttributes",
];

/// Whether the template of `old`, with the defaults of this server version, equals the template of `new`. Both are data of
/// revisions; data without a template equals nothing.
pub fn is_same(old: &Value, new: &Value) -> bool {
    match (template(old), template(new)) {
        (Some(old), Some(new)) => old == new,
        _ => false,
    }
}

/// The template in the data of a revision, with defaults and without empty values.
fn template(data: &Value) -> Option<Value> {
    let mut template = data.pointer("/spec/template")?.clone();
    tidy(&mut template);
    complete(&mut template);
    Some(template)
}

/// Removes values that the server omits.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(tidy);
            fields.retain(|field, value| !is_nothing(field, value));
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn is_nothing(field: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && MAPS.contains(&field),
        _ => false,
    }
}
