//! The shell that says up to which version objects are old: the version of the resource when its migration began.

use std::sync::Arc;

use flyball_api::time::SignedDuration;
use flyball_api::{Key, PartialObject, ResourceType, StorageVersionMigration, Timestamp};
use flyball_cache::Informer;
use flyball_client::{DiscoveredResource, Error, ListParams};
use flyball_common::served::Served;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::migrate::write;
use super::plan::{failed, is_over, is_running};
use super::resource_of;

/// No namespace can have this name, so that nothing but the version is listed.
const NO_NAMESPACE: &str = "@fake:svm_ns!";
const NEEDED: [&str; 3] = ["update", "patch", "list"];
/// For how long a resource that is not served may be about to be.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

pub(super) struct Checkpoints {
    pub(super) cx: Arc<Context>,
    pub(super) migrations: Arc<Informer<StorageVersionMigration>>,
    pub(super) served: Arc<Served>,
}

impl Reconcile for Checkpoints {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(migration) = self.migrations.store().get(key) else { return Ok(Next::Settled) };
        if !is_running(&migration) || is_over(&migration) || !migration.status.resource_version.is_empty() {
            return Ok(Next::Settled);
        }
        let now = self.cx.clock.now();
        let Some(found) = find(&self.served, &migration).await? else {
            if may_come(&migration, now) {
                return Err(unserved(&migration));
            }
            let why = "resource does not exist in discovery";
            return write(&self.cx, key, &failed(&migration, why, now), why).await;
        };
        if !NEEDED.iter().all(|verb| found.has_verb(verb)) {
            let why = unmigratable(&found.resource);
            return write(&self.cx, key, &failed(&migration, &why, now), &why).await;
        }
        let mut checked = StorageVersionMigration::clone(&migration);
        let doing = || format!("finding the version of {}", found.resource);
        let version = self.version(&found.resource).await.map_err(|error| SyncError::api(doing())(error))?;
        checked.status.resource_version = version.into();
        write(&self.cx, key, &checked, "what is older is to be written anew").await
    }
}

impl Checkpoints {
    async fn version(&self, resource: &ResourceType) -> Result<String, Error> {
        let namespace = resource.namespaced.then_some(NO_NAMESPACE);
        let params = ListParams { limit: Some(1), ..ListParams::default() };
        let list = self.cx.client.list_as::<PartialObject>(resource, namespace, &params).await?;
        Ok(list.resource_version.to_string())
    }
}

/// What is migrated, in the version that the server prefers. Who does not find it asks anew the next time.
pub(super) async fn find(
    served: &Served,
    migration: &StorageVersionMigration,
) -> Result<Option<DiscoveredResource>, SyncError> {
    let wanted = resource_of(migration);
    let failed = || format!("finding out what serves {wanted}");
    let is_it = |found: &&DiscoveredResource| {
        found.preferred && found.resource.group == wanted.namespace && found.resource.plural == wanted.name
    };
    let (known, age) = served.known().await.map_err(|error| SyncError::api(failed())(error))?;
    if let Some(found) = known.resources.iter().find(is_it) {
        return Ok(Some(found.clone()));
    }
    if age.is_none() {
        return Ok(None);
    }
    let known = served.discover().await.map_err(|error| SyncError::api(failed())(error))?;
    Ok(known.resources.iter().find(is_it).cloned())
}

/// Whether a migration is so young that its resource may be about to be served.
pub(super) fn may_come(migration: &StorageVersionMigration, now: Timestamp) -> bool {
    migration.metadata.creation_timestamp.is_some_and(|made| now.duration_since(made) < PATIENCE)
}

pub(super) fn unserved(migration: &StorageVersionMigration) -> SyncError {
    let resource = resource_of(migration);
    SyncError::other(format!("migrating {resource}"), "it is not served yet").expected()
}

fn unmigratable(resource: &ResourceType) -> String {
    let named = format!("{}, Resource={}", resource.api_version(), resource.plural);
    format!("resource {named:?} does not support discovery operations: [{}]", NEEDED.join(" "))
}
