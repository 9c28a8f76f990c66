//! The conditions of a migration, and the write of its status. Pure.

use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::time::SignedDuration;
use flyball_api::{StorageVersionMigration, Timestamp};
use flyball_runtime::{Effect, ErrorKinds, Plan, Waiting, Write};

use super::resource_of;

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
/// How long after its creation a migration waits for its resource to be served.
const NEW_FOR: SignedDuration = SignedDuration::from_mins(1);

pub fn is_running(migration: &StorageVersionMigration) -> bool {
    condition::is_true(&migration.status.conditions, RUNNING)
}

pub fn has_succeeded(migration: &StorageVersionMigration) -> bool {
    condition::is_true(&migration.status.conditions, SUCCEEDED)
}

/// Whether it has succeeded or failed.
pub fn is_over(migration: &StorageVersionMigration) -> bool {
    has_succeeded(migration) || condition::is_true(&migration.status.conditions, FAILED)
}

pub fn begun(migration: &StorageVersionMigration, now: Timestamp) -> StorageVersionMigration {
    with(migration, RUNNING, "MigrationRunning", "The migration is running", now)
}

/// It has succeeded or failed, and so no longer runs.
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

/// Every object has been rewritten.
pub fn succeeded(migration: &StorageVersionMigration, now: Timestamp) -> StorageVersionMigration {
    with(migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "", now)
}

pub fn failed(migration: &StorageVersionMigration, why: &str, now: Timestamp) -> StorageVersionMigration {
    with(migration, FAILED, "StorageVersionMigrationFailed", why, now)
}

/// A condition is set once and then stays.
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

/// Retries while the migration is new, because its resource may be served soon.
pub fn not_served_yet(migration: &StorageVersionMigration, now: Timestamp) -> Option<Plan> {
    let until = migration.metadata.creation_timestamp?.checked_add(NEW_FOR).ok()?;
    let resource = resource_of(migration);
    let plan = Plan::of([Effect::NotYet(format!("{resource} is not served yet"))]);
    (now < until).then(|| {
        plan.waiting_for([Waiting::until(until, "when the migration fails if its resource is not served")])
    })
}

/// Writes the status of a migration that has changed.
pub fn write(migration: &StorageVersionMigration, why: &str) -> Write {
    Write::replace(migration).subresource("status").why(why).ignore(ErrorKinds::NOT_FOUND)
}
