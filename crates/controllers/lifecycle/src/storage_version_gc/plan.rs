//! A StorageVersion without what some servers said. Pure; on the object as served, so that nothing of it is lost.

use flyball_api::Timestamp;
use flyball_api::time::format_seconds;
use serde_json::{Value, json};

const CONDITION: &str = "AllEncodingVersionsEqual";

/// What is left of a StorageVersion.
#[derive(Debug, PartialEq)]
pub enum Left {
    Everything,
    Some(Value),
    Nothing,
}

/// The servers that have said something.
pub fn servers(version: &Value) -> Vec<String> {
    let entries = version.pointer("/status/storageVersions").and_then(Value::as_array);
    entries.into_iter().flatten().map(|entry| server(entry).to_owned()).collect()
}

/// What is left without those that are gone.
pub fn without(mut version: Value, is_gone: impl Fn(&str) -> bool, now: Timestamp) -> Left {
    let entries = version.pointer_mut("/status/storageVersions").and_then(Value::as_array_mut);
    let Some(entries) = entries else { return Left::Everything };
    let before = entries.len();
    entries.retain(|entry| !is_gone(server(entry)));
    match entries.len() {
        left if left == before => Left::Everything,
        0 => Left::Nothing,
        _ => {
            agree(&mut version, now);
            Left::Some(version)
        }
    }
}

fn server(entry: &Value) -> &str {
    entry["apiServerID"].as_str().unwrap_or_default()
}

/// The version that all servers encode in, if they agree, and the condition that says whether they do.
fn agree(version: &mut Value, now: Timestamp) {
    let generation = version.pointer("/metadata/generation").cloned();
    let status = &mut version["status"];
    let mut encodings =
        status["storageVersions"].as_array().into_iter().flatten().map(|entry| &entry["encodingVersion"]);
    let first = encodings.next().cloned().unwrap_or_default();
    let common = encodings.all(|other| *other == first).then_some(first);
    let earlier = status.get("commonEncodingVersion").filter(|earlier| !earlier.is_null()).cloned();
    let has_moved = earlier.is_some() && common.is_some() && earlier != common;
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
            if known["status"] == condition["status"] && !has_moved {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
    }
}
