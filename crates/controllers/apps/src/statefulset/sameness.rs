//! Whether an older revision still means what the template says, although its bytes differ: a newer API server
//! fills in fields that it did not know before, and leaves out nulls that it used to write. Such a change must not
//! replace any pod; every other one must. Pure.
//!
//! Upstream: `setMatchesLatestExistingRevision`, under the gate `StatefulSetSemanticRevisionComparison`.

use serde_json::Value;

use super::defaults::complete;

/// Fields that hold a map, of labels or quantities, say. The server does not write an empty one down. Everywhere else an
/// empty object is something that a user has asked for.
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

/// Whether the template of `old`, as this version of the server would fill it in, is the template of `new`. Both are
/// what revisions hold; one that holds no template is like no other.
pub fn is_same(old: &Value, new: &Value) -> bool {
    match (template(old), template(new)) {
        (Some(old), Some(new)) => old == new,
        _ => false,
    }
}

/// The template in the data of a revision, complete and without what says nothing.
fn template(data: &Value) -> Option<Value> {
    let mut template = data.pointer("/spec/template")?.clone();
    tidy(&mut template);
    complete(&mut template);
    Some(template)
}

/// Leaves out what the server does not write down.
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
