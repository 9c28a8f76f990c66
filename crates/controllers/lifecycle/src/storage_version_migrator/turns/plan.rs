//! Which migration of a resource starts or stops. Pure.

use std::sync::Arc;

use flyball_api::{Object, StorageVersionMigration, Timestamp};
use flyball_runtime::Plan;
use serde_json::Value;

use crate::storage_version_migrator::definition;
use crate::storage_version_migrator::status::{begun, ended, has_succeeded, is_over, is_running, write};

/// A migration that is to start or to stop running.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn<'a> {
    pub migration: &'a StorageVersionMigration,
    /// Whether it stops, because it has succeeded or failed.
    pub is_over: bool,
}

/// The next turn among the migrations of one resource. Those that are over stop first; then the oldest starts, if none
/// runs.
pub fn turn(migrations: &[Arc<StorageVersionMigration>]) -> Option<Turn<'_>> {
    let age = |m: &&Arc<StorageVersionMigration>| (m.meta().creation_timestamp, m.meta().name.clone());
    if let Some(migration) = migrations.iter().filter(|m| is_running(m) && is_over(m)).min_by_key(age) {
        return Some(Turn { migration, is_over: true });
    }
    if migrations.iter().any(|m| is_running(m)) {
        return None;
    }
    let migration = migrations.iter().filter(|m| !is_over(m)).min_by_key(age)?;
    Some(Turn { migration, is_over: false })
}

/// Starts or stops a migration. If it is one of custom resources, their `definition` is updated first.
pub fn plan(turn: Turn<'_>, definition: Option<&Value>, now: Timestamp) -> Plan {
    let Turn { migration, is_over } = turn;
    let (status, why, why_definition) = match is_over {
        true => (ended(migration, now), "it is over", "the migration of its objects is over"),
        false => (begun(migration, now), "it is the oldest", "the migration of its objects starts"),
    };
    let of_definition = |found: &Value| match is_over {
        true => definition::ended(found, has_succeeded(migration), now),
        false => definition::begun(found, &migration.metadata.name, now),
    };
    let define = definition.map(|found| definition::apply(found, of_definition(found), why_definition));
    Plan::of(define.into_iter().chain([write(&status, why)]))
}
