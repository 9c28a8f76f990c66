//! Short ways to read objects as JSON.

use serde_json::Value;

/// The elements of a list; none if the value is not a list.
pub(super) fn items(value: &Value) -> impl DoubleEndedIterator<Item = &Value> + Clone {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// A text; empty if it is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    items(&object["metadata"]["finalizers"]).map(text)
}

pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|found| found == finalizer)
}

/// The controller reference.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    items(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true)
}

/// The uid of the controller; empty if there is none.
pub(super) fn manager(object: &Value) -> &str {
    controller_of(object).map_or("", |owner| text(&owner["uid"]))
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

/// Whether a pod is active: not finished and not being deleted.
pub(super) fn is_live(pod: &Value) -> bool {
    !has_ended(pod) && !is_deleting(pod)
}

/// Whether a condition is true.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|found| found["status"] == "True")
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(&object["status"]["conditions"]).find(|condition| condition["type"] == kind)
}

/// Whether a selector chooses labels: equality alone, or `matchLabels` with `matchExpressions`.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    if selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none() {
        return has_all(selector, labels);
    }
    has_all(&selector["matchLabels"], labels)
        && items(&selector["matchExpressions"]).all(|wanted| {
            let found = labels.get(text(&wanted["key"]));
            let is_listed = found.is_some_and(|found| items(&wanted["values"]).any(|value| value == found));
            match text(&wanted["operator"]) {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

fn has_all(wanted: &Value, labels: &Value) -> bool {
    wanted.as_object().into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
}

/// `Ok` if the rule holds, otherwise the description.
pub(super) fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}
