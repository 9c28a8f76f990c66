//! Which migration runs, and what migrations and definitions say of it. Pure.

use std::sync::Arc;

use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::time::format_seconds;
use flyball_api::{Object, StorageVersionMigration, Timestamp};
use serde_json::{Value, json};

/// The condition of the one that runs.
pub const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const MIGRATING: &str = "StorageMigrating";

/// Whether it is its turn.
pub fn is_running(migration: &StorageVersionMigration) -> bool {
    condition::is_true(&migration.status.conditions, RUNNING)
}

pub fn has_succeeded(migration: &StorageVersionMigration) -> bool {
    condition::is_true(&migration.status.conditions, SUCCEEDED)
}

/// Whether it has come to an end.
pub fn is_over(migration: &StorageVersionMigration) -> bool {
    has_succeeded(migration) || condition::is_true(&migration.status.conditions, FAILED)
}

/// What to do about the migrations of one resource.
#[derive(Debug, Default, PartialEq)]
pub struct Turn<'a> {
    /// Those that are over and still said to run.
    pub over: Vec<&'a StorageVersionMigration>,
    /// The one whose turn it is.
    pub next: Option<&'a StorageVersionMigration>,
}

/// Whose turn it is among the migrations of a resource: the oldest, if none runs.
pub fn turn(migrations: &[Arc<StorageVersionMigration>]) -> Turn<'_> {
    let over = migrations.iter().filter(|m| is_running(m) && is_over(m)).map(Arc::as_ref).collect();
    let is_taken = migrations.iter().any(|m| is_running(m) && !is_over(m));
    let waiting = migrations.iter().filter(|m| !is_running(m) && !is_over(m) && !is_taken);
    let age = |m: &StorageVersionMigration| (m.meta().creation_timestamp, m.meta().name.clone());
    let next = waiting.map(Arc::as_ref).min_by_key(|m| age(m));
    Turn { over, next }
}

pub fn begun(migration: &StorageVersionMigration, now: Timestamp) -> StorageVersionMigration {
    with(migration, RUNNING, "MigrationRunning", "The migration is running", now)
}

/// It is over, and does not run any more.
pub fn ended(migration: &StorageVersionMigration, now: Timestamp) -> StorageVersionMigration {
    let mut ended = migration.clone();
    let stopped = Condition {
        type_: RUNNING.into(),
        status: FALSE.into(),
        reason: "MigrationCompleted".into(),
        message: "Migration completed".into(),
        observed_generation: migration.metadata.generation,
        last_transition_time: Some(now),
        ..Condition::default()
    };
    condition::set(&mut ended.status.conditions, stopped);
    ended
}

/// Every object has been written anew.
pub fn succeeded(migration: &StorageVersionMigration, now: Timestamp) -> StorageVersionMigration {
    with(migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "", now)
}

/// It cannot be done, as the text says.
pub fn failed(migration: &StorageVersionMigration, why: &str, now: Timestamp) -> StorageVersionMigration {
    with(migration, FAILED, "StorageVersionMigrationFailed", why, now)
}

/// A condition is set once, and then stays.
fn with(
    migration: &StorageVersionMigration,
    kind: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> StorageVersionMigration {
    let mut changed = migration.clone();
    if condition::find(&changed.status.conditions, kind).is_none_or(|c| !c.is_true() && !c.is_false()) {
        changed.status.conditions.push(Condition {
            type_: kind.into(),
            status: TRUE.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: Some(now),
            ..Condition::default()
        });
    }
    changed
}

/// What the definition of a custom resource says while it is migrated.
pub fn definition_begun(definition: &Value, migration: &str, now: Timestamp) -> Value {
    let message = format!("Migration {migration} is running");
    applied(
        definition,
        json!({"conditions": [condition(definition, TRUE, "MigrationRunning", &message, now)]}),
    )
}

/// What it says afterwards: if nothing changed it meanwhile, only the version of today is stored any more.
pub fn definition_ended(definition: &Value, is_success: bool, now: Timestamp) -> Value {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let said = conditions.into_iter().flatten().find(|condition| condition["type"] == MIGRATING);
    let is_unchanged = said.is_some_and(|said| {
        let seen = said["observedGeneration"].as_i64().unwrap_or(0);
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
    // Upstream: migrationrunner.go, finishCRDMigration: also after a failure, so that objects in old versions could be lost
    // with the version that nothing says they are stored in.
    if let Some(stored) = stored.filter(|_| is_success && is_unchanged) {
        status["storedVersions"] = json!([stored["name"]]);
    }
    applied(definition, status)
}

fn condition(definition: &Value, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "type": MIGRATING, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": format_seconds(now),
        "observedGeneration": definition["metadata"]["generation"],
    })
}

/// To be applied to the definition as it was read, and to no other.
fn applied(definition: &Value, status: Value) -> Value {
    let meta = &definition["metadata"];
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": meta["name"], "resourceVersion": meta["resourceVersion"]},
        "status": status,
    })
}
