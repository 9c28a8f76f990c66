//! How objects are rewritten, and how a migration ends. Pure.

use std::sync::Arc;

use flyball_api::{Object, PartialObject, ResourceType, ResourceVersion, StorageVersionMigration, Timestamp};
use flyball_client::{Error, Patch};
use flyball_runtime::plan::Operation;
use flyball_runtime::{ErrorKinds, Plan, Write};
use serde_json::json;

use crate::storage_version_migrator::NAME;
use crate::storage_version_migrator::status::{failed, is_over, not_served_yet, succeeded, write};

/// Whether the objects of a migration are to be rewritten.
pub fn needs_rewrite(migration: &StorageVersionMigration) -> bool {
    !is_over(migration) && !migration.status.resource_version.is_empty()
}

/// What is done instead of rewriting objects, if the checkpoint cannot be read or the resource is not served.
pub fn impossible(
    migration: &StorageVersionMigration,
    checkpoint: Option<ResourceVersion>,
    now: Timestamp,
) -> Plan {
    let fail = |problem: &str| Plan::of([failure(migration, problem, now)]);
    match checkpoint {
        None => fail(&format!("{:?} is no resource version", migration.status.resource_version)),
        Some(_) => {
            not_served_yet(migration, now).unwrap_or_else(|| fail("unable to obtain GVR from discovery"))
        }
    }
}

/// The objects that may be stored in an old version, in order.
pub fn old(mut objects: Vec<Arc<PartialObject>>, checkpoint: ResourceVersion) -> Vec<Arc<PartialObject>> {
    objects.retain(|object| object.meta().resource_version <= checkpoint);
    objects.sort_unstable_by_key(|object| object.key());
    objects
}

/// Rewrites objects by patches that change nothing.
pub fn plan(resource: &ResourceType, objects: &[Arc<PartialObject>]) -> Plan {
    Plan::of(objects.iter().map(|object| rewrite(resource, object)))
}

fn rewrite(resource: &ResourceType, object: &PartialObject) -> Write {
    let meta = object.meta();
    // Without the uid, an object that was deleted would be created by an apply; without the version, one that was
    // recreated would be an invalid change of the uid. With both, it is a conflict.
    let unchanged = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version.to_string()},
    });
    let patch = Patch::Apply { manager: NAME.into(), force: false, object: unchanged };
    Write::of(resource.clone(), object.key(), Operation::Patch(patch))
        .why("it may be stored in an old version")
        // Changed, deleted or recreated since: it is not stored in an old version.
        .ignore(ErrorKinds::CONFLICT)
}

/// The end of a migration of which every object was rewritten.
pub fn success(migration: &StorageVersionMigration, now: Timestamp) -> Write {
    write(&succeeded(migration, now), "every object was rewritten")
}

/// The end of a migration after the server refused a write; `None` if the error may pass.
pub fn refusal(migration: &StorageVersionMigration, error: &Error, now: Timestamp) -> Option<Write> {
    let code = error.code();
    let may_pass = code.is_none() || matches!(code, Some(429 | 500 | 503 | 504)) || error.outcome_unknown();
    let message = || error.status().map_or_else(|| error.to_string(), |status| status.message.to_string());
    (!may_pass).then(|| failure(migration, &message(), now))
}

fn failure(migration: &StorageVersionMigration, problem: &str, now: Timestamp) -> Write {
    let message = format!("migration encountered unhandled error: {problem}");
    write(&failed(migration, &message, now), &message)
}
