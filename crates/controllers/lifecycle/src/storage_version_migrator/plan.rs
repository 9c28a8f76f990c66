//! Which migration runs, up to which version its objects are rewritten, and how it ends. Pure: a plan for each of the
//! three shells.

use std::sync::Arc;

use flyball_api::time::SignedDuration;
use flyball_api::{Object, PartialObject, ResourceType, ResourceVersion, StorageVersionMigration, Timestamp};
use flyball_client::{DiscoveredResource, Error, Patch};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Effect, ErrorKinds, Plan, Waiting, Write};
use serde_json::{Value, json};

use super::definition;
use super::status::{begun, ended, failed, has_succeeded, is_over, is_running, succeeded};

const NEEDED: [&str; 3] = ["update", "patch", "list"];
/// How long after its creation a migration waits for its resource to be served.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

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
pub fn plan_turn(turn: Turn<'_>, definition: Option<&Value>, now: Timestamp) -> Plan {
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

/// Whether the version up to which objects are rewritten is still to be found.
pub fn needs_checkpoint(migration: &StorageVersionMigration) -> bool {
    is_running(migration) && !is_over(migration) && migration.status.resource_version.is_empty()
}

pub fn can_migrate(found: &DiscoveredResource) -> bool {
    NEEDED.iter().all(|verb| found.has_verb(verb))
}

/// Everything that decides about the checkpoint of a migration.
pub struct Checkpoint<'a> {
    pub migration: &'a StorageVersionMigration,
    /// The resource, if the server serves it.
    pub found: Option<&'a DiscoveredResource>,
    /// The present version of the resource, if it can be migrated.
    pub version: Option<ResourceVersion>,
    pub now: Timestamp,
}

/// Sets the checkpoint: the version of the resource at the start of its migration.
pub fn plan_checkpoint(view: &Checkpoint<'_>) -> Plan {
    let Checkpoint { migration, found, version, now } = view;
    let fail = |message: &str| Plan::of([write(&failed(migration, message, *now), message)]);
    match (found, version) {
        _ if !needs_checkpoint(migration) => Plan::default(),
        (None, _) => {
            not_served_yet(migration, *now).unwrap_or_else(|| fail("resource does not exist in discovery"))
        }
        (Some(found), Some(version)) if can_migrate(found) => {
            let mut checked = StorageVersionMigration::clone(migration);
            checked.status.resource_version = version.to_string().into();
            Plan::of([write(&checked, "objects up to this version are to be rewritten")])
        }
        (Some(found), _) => {
            // As Go prints it: the core group is empty, and its slash stays.
            let ResourceType { group, version, plural, .. } = &found.resource;
            let named = format!("{group}/{version}, Resource={plural}");
            fail(&format!("resource {named:?} does not support discovery operations: [{}]", NEEDED.join(" ")))
        }
    }
}

/// Whether the objects of a migration are to be rewritten.
pub fn needs_rewrite(migration: &StorageVersionMigration) -> bool {
    !is_over(migration) && !migration.status.resource_version.is_empty()
}

/// What is done instead of rewriting objects, if the checkpoint cannot be read or the resource is not served.
pub fn plan_impossible(
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
pub fn plan_rewrite(resource: &ResourceType, objects: &[Arc<PartialObject>]) -> Plan {
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
    let patch = Patch::Apply { manager: super::NAME.into(), force: false, object: unchanged };
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

/// Retries while the migration is new, because its resource may be served soon.
fn not_served_yet(migration: &StorageVersionMigration, now: Timestamp) -> Option<Plan> {
    let until = migration.metadata.creation_timestamp?.checked_add(PATIENCE).ok()?;
    let resource = super::resource_of(migration);
    let plan = Plan::of([Effect::NotYet(format!("{resource} is not served yet"))]);
    (now < until).then(|| {
        plan.waiting_for([Waiting::until(until, "when the migration fails if its resource is not served")])
    })
}

fn write(migration: &StorageVersionMigration, why: &str) -> Write {
    Write::replace(migration).subresource("status").why(why).ignore(ErrorKinds::NOT_FOUND)
}
