//! The checkpoint of a migration: the version up to which objects are rewritten. Pure.

use flyball_api::{ResourceType, ResourceVersion, StorageVersionMigration, Timestamp};
use flyball_client::DiscoveredResource;
use flyball_runtime::Plan;

use crate::storage_version_migrator::status::{failed, is_over, is_running, not_served_yet, write};

const NEEDED: [&str; 3] = ["update", "patch", "list"];

/// Whether the version up to which objects are rewritten is still to be found.
pub fn needs_checkpoint(migration: &StorageVersionMigration) -> bool {
    is_running(migration) && !is_over(migration) && migration.status.resource_version.is_empty()
}

pub fn can_migrate(found: &DiscoveredResource) -> bool {
    NEEDED.iter().all(|verb| found.has_verb(verb))
}

/// Everything that decides about the checkpoint of a migration.
pub struct View<'a> {
    pub migration: &'a StorageVersionMigration,
    /// The resource, if the server serves it.
    pub found: Option<&'a DiscoveredResource>,
    /// The present version of the resource, if it can be migrated.
    pub version: Option<ResourceVersion>,
    pub now: Timestamp,
}

/// Sets the checkpoint: the version of the resource at the start of its migration.
pub fn plan(view: &View<'_>) -> Plan {
    let View { migration, found, version, now } = view;
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
