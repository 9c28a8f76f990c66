//! The entries of `managedFields`: which manager owns which fields.

use serde_json::{Value, json};

use super::set::Set;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    /// `Apply` or `Update`.
    pub(super) operation: String,
    pub(super) api_version: String,
    pub(super) time: String,
    pub(super) subresource: String,
    pub(super) fields: Set,
}

impl Entry {
    pub(super) fn is_applied_by(&self, manager: &str, subresource: &str) -> bool {
        self.operation == "Apply" && self.manager == manager && self.subresource == subresource
    }
}

/// The entries of an object.
pub(super) fn read(object: &Value) -> Vec<Entry> {
    let list = object["metadata"]["managedFields"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.into_iter()
        .flatten()
        .filter(|entry| entry.as_object().is_some_and(|map| !map.is_empty()))
        .map(|entry| Entry {
            manager: text(&entry["manager"]),
            operation: text(&entry["operation"]),
            api_version: text(&entry["apiVersion"]),
            time: text(&entry["time"]),
            subresource: text(&entry["subresource"]),
            fields: Set::read(&entry["fieldsV1"]),
        })
        .collect()
}

/// Writes the entries into an object, applied ones first, then by time and name.
pub(super) fn write(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| {
        let key = |e: &Entry| (e.operation.clone(), e.time.clone(), e.manager.clone(), e.subresource.clone());
        key(a).cmp(&key(b))
    });
    let metadata = crate::meta::of(object);
    if entries.is_empty() {
        metadata.remove("managedFields");
        return;
    }
    let list = entries.iter().map(|entry| {
        let mut out = json!({
            "manager": entry.manager, "operation": entry.operation, "apiVersion": entry.api_version,
            "time": entry.time, "fieldsType": "FieldsV1", "fieldsV1": entry.fields.write(),
        });
        if !entry.subresource.is_empty() {
            out["subresource"] = json!(entry.subresource);
        }
        out
    });
    let list: Vec<Value> = list.collect();
    metadata.insert("managedFields".to_owned(), json!(list));
}
