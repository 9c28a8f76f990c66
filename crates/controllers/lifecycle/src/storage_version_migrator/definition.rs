//! The status of a CustomResourceDefinition whose objects are migrated. Pure.

use flyball_api::condition::{FALSE, TRUE};
use flyball_api::time::format_seconds;
use flyball_api::{Key, ResourceType, Timestamp};
use flyball_client::Patch;
use flyball_runtime::Write;
use flyball_runtime::plan::Operation;
use serde_json::{Value, json};

pub const DEFINITIONS: ResourceType = ResourceType::new(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    false,
);
const MANAGER: &str = "migration-runner-controller";
const MIGRATING: &str = "StorageMigrating";

/// Applies a status to a definition.
pub fn apply(definition: &Value, status: Value, why: &str) -> Write {
    let key = Key::cluster(definition["metadata"]["name"].as_str().unwrap_or_default());
    let object = applied(definition, status);
    let patch = Patch::Apply { manager: MANAGER.into(), force: true, object };
    Write::of(DEFINITIONS, key, Operation::Patch(patch)).subresource("status").why(why)
}

/// The status while the objects are migrated.
pub fn begun(definition: &Value, migration: &str, now: Timestamp) -> Value {
    let message = format!("Migration {migration} is running");
    json!({"conditions": [condition(definition, TRUE, "MigrationRunning", &message, now)]})
}

/// The status afterwards. If the definition has not changed meanwhile, the storage version is the only stored version.
pub fn ended(definition: &Value, is_success: bool, now: Timestamp) -> Value {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let known = conditions.into_iter().flatten().find(|condition| condition["type"] == MIGRATING);
    let is_unchanged = known.is_some_and(|known| {
        let seen = known["observedGeneration"].as_i64().unwrap_or(0);
        seen == definition["metadata"]["generation"].as_i64().unwrap_or(0)
    });
    let (reason, message) = match (is_success, is_unchanged) {
        (true, true) => {
            ("MigrationSucceeded", "The migration has succeeded and the stored versions have been updated")
        }
        (true, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    let mut status = json!({"conditions": [condition(definition, FALSE, reason, message, now)]});
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    // Upstream: migrationrunner.go, finishCRDMigration: also after a failure. A version in which objects are still stored
    // could then be removed from the definition.
    if let Some(stored) = stored.filter(|_| is_success && is_unchanged) {
        status["storedVersions"] = json!([stored["name"]]);
    }
    status
}

fn condition(definition: &Value, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "type": MIGRATING, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": format_seconds(now),
        "observedGeneration": definition["metadata"]["generation"],
    })
}

/// Applies to the version of the definition that was read, and to no other.
fn applied(definition: &Value, status: Value) -> Value {
    let meta = &definition["metadata"];
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": meta["name"], "resourceVersion": meta["resourceVersion"]},
        "status": status,
    })
}
