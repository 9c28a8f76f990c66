//! What is left of a StorageVersion when API servers are gone. Pure; on the objects as served, so that no field of them
//! is lost.

use std::collections::BTreeSet;

use flyball_api::time::format_seconds;
use flyball_api::{Key, Lease, StorageVersion, Timestamp};
use flyball_client::{DeleteOptions, Error};
use flyball_runtime::{Effect, Plan, Write};
use serde_json::{Value, json};

use super::{IDENTITY, SERVER};

const CONDITION: &str = "AllEncodingVersionsEqual";

/// Everything that the decision depends on.
pub struct View<'a> {
    /// StorageVersions as the server has them.
    pub versions: &'a [Value],
    /// The API servers that are gone.
    pub gone: &'a BTreeSet<String>,
    pub now: Timestamp,
}

/// Removes the entries of API servers that are gone, and StorageVersions without entries.
pub fn plan(view: &View<'_>) -> Plan {
    Plan::of([Effect::each(view.versions.iter().filter_map(|version| cleanup(version, view)))])
}

fn cleanup(version: &Value, view: &View<'_>) -> Option<Write> {
    let key = Key::cluster(version["metadata"]["name"].as_str().unwrap_or_default());
    let entries = entries(version);
    let left: Vec<&Value> = entries.iter().filter(|entry| !view.gone.contains(server(entry))).collect();
    if left.len() == entries.len() {
        return None;
    }
    if left.is_empty() {
        // Upstream deletes any version of the object. If another API server has added its entry since, it would add it
        // again only after ten minutes.
        let as_read =
            version["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let options = DeleteOptions { resource_version: as_read, ..DeleteOptions::default() };
        let delete = Write::delete_with::<StorageVersion>(key, options);
        return Some(delete.why("every API server that it has an entry of is gone"));
    }
    let mut updated = version.clone();
    updated["status"]["storageVersions"] = json!(left);
    set_common_version(&mut updated, view.now);
    let update = Write::status_of::<StorageVersion>(key, updated);
    Some(update.why("an API server that it has an entry of is gone"))
}

/// Whether an API server is gone, by its lease as the server has it.
///
/// # Errors
/// The lease could not be read.
pub fn is_gone(server: &str, lease: Result<Lease, Error>) -> Result<bool, Error> {
    match lease {
        // Any other lease may have its name.
        Ok(lease) => Ok(lease.metadata.labels.get(IDENTITY) != Some(SERVER)),
        // No lease has an empty name.
        Err(error) if error.is_not_found() || server.is_empty() => Ok(true),
        Err(error) => Err(error),
    }
}

/// The API servers that a StorageVersion has entries of.
pub fn servers(version: &Value) -> Vec<String> {
    entries(version).iter().map(|entry| server(entry).to_owned()).collect()
}

fn entries(version: &Value) -> &[Value] {
    version.pointer("/status/storageVersions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn server(entry: &Value) -> &str {
    entry["apiServerID"].as_str().unwrap_or_default()
}

/// Sets the encoding version that all API servers have in common, if there is one, and the condition about it.
fn set_common_version(version: &mut Value, now: Timestamp) {
    let generation = version.pointer("/metadata/generation").cloned();
    let status = &mut version["status"];
    let mut encodings =
        status["storageVersions"].as_array().into_iter().flatten().map(|entry| &entry["encodingVersion"]);
    let first = encodings.next().cloned().unwrap_or_default();
    let common = encodings.all(|other| *other == first).then_some(first);
    let earlier = status.get("commonEncodingVersion").filter(|earlier| !earlier.is_null()).cloned();
    let has_changed = earlier.is_some() && common.is_some() && earlier != common;
    let (is, reason, message) = match common {
        Some(_) => ("True", "CommonEncodingVersionSet", "Common encoding version set"),
        None => ("False", "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    if let Some(fields) = status.as_object_mut() {
        fields.remove("commonEncodingVersion");
        fields.extend(common.map(|common| ("commonEncodingVersion".to_owned(), common)));
    }
    let mut condition = json!({
        "type": CONDITION, "status": is, "reason": reason, "message": message,
        "lastTransitionTime": format_seconds(now),
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation;
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|known| known["type"] == CONDITION) {
        None => conditions.push(condition),
        Some(known) => {
            if known["status"] == condition["status"] && !has_changed {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
    }
}
