//! The shell that writes old objects anew, by patches that change nothing.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{
    Key, Object, PartialObject, ResourceType, ResourceVersion, StorageVersionMigration, manifest,
};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_common::served::Served;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde_json::json;

use super::checkpoint::{find, may_come, unserved};
use super::plan::{failed, is_over, succeeded};

/// How long a worker waits for a cache, so that other migrations get their turn.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Migrator {
    pub(super) cx: Arc<Context>,
    pub(super) migrations: Arc<Informer<StorageVersionMigration>>,
    pub(super) served: Arc<Served>,
}

impl Reconcile for Migrator {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(migration) = self.migrations.store().get(key) else { return Ok(Next::Settled) };
        if is_over(&migration) || migration.status.resource_version.is_empty() {
            return Ok(Next::Settled);
        }
        let now = self.cx.clock.now();
        let fail = async |why: String| {
            let why = format!("migration encountered unhandled error: {why}");
            write(&self.cx, key, &failed(&migration, &why, now), &why).await
        };
        let Ok(checkpoint) = migration.status.resource_version.parse::<ResourceVersion>() else {
            return fail(format!("{:?} is no resource version", migration.status.resource_version)).await;
        };
        let Some(found) = find(&self.served, &migration).await? else {
            if may_come(&migration, now) {
                return Err(unserved(&migration));
            }
            return fail("unable to obtain GVR from discovery".to_owned()).await;
        };
        match self.rewrite(key, &found.resource, checkpoint).await? {
            Some(why) => fail(why).await,
            None => {
                self.cx.informers.release(&found.resource);
                let why = "every object was written anew";
                write(&self.cx, key, &succeeded(&migration, self.cx.clock.now()), why).await
            }
        }
    }
}

impl Migrator {
    /// Writes every object anew that is not newer than `checkpoint`; gives the reason for which that is impossible.
    async fn rewrite(
        &self,
        key: &Key,
        resource: &ResourceType,
        checkpoint: ResourceVersion,
    ) -> Result<Option<String>, SyncError> {
        let doing = || format!("migrating {resource}");
        let objects = self.cx.informers.dynamic(resource);
        let filled = async {
            objects.synced().await;
            objects.reached(checkpoint).await;
        };
        if tokio::time::timeout(PATIENCE, filled).await.is_err() {
            return Err(SyncError::other(doing(), "the cache has not come up to the version yet").expected());
        }
        let mut old = objects.store().list();
        old.retain(|object| object.meta().resource_version <= checkpoint);
        old.sort_unstable_by_key(|object| object.key());
        for object in old {
            match self.touch(key, resource, &object).await {
                // Changed, deleted or made anew since: nothing is left to do for it.
                Err(error) if error.is_conflict() => {}
                Err(error) if is_passing(&error) => return Err(SyncError::api(doing())(error)),
                Err(error) => {
                    let told = error.status().map(|status| status.message.to_string());
                    return Ok(Some(told.unwrap_or_else(|| error.to_string())));
                }
                Ok(()) => {}
            }
        }
        Ok(None)
    }

    async fn touch(&self, key: &Key, resource: &ResourceType, object: &PartialObject) -> Result<(), Error> {
        let meta = object.meta();
        // With both, an object that is gone or made anew is a conflict, and not created.
        let nothing = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version.to_string()},
        });
        let patch = Patch::Apply { manager: super::NAME.into(), force: false, object: nothing };
        let writer = self.cx.writer(key).unawaited();
        let why = "it may be stored in an old version";
        writer.patch_dynamic::<PartialObject>(resource, &object.key(), None, patch, why).await.map(drop)
    }
}

/// Whether an error may be another one, or none, the next time.
fn is_passing(error: &Error) -> bool {
    let code = error.code();
    code.is_none() || matches!(code, Some(429 | 500 | 503 | 504)) || error.outcome_unknown()
}

/// Writes the status of a migration while reconciling `owner`.
pub(super) async fn write(
    cx: &Context,
    owner: &Key,
    migration: &StorageVersionMigration,
    why: &str,
) -> Result<Next, SyncError> {
    let key = migration.key();
    let doing = || format!("writing the status of migration {key}");
    let body = manifest(migration).map_err(|error| SyncError::other(doing(), error))?;
    match cx.writer(owner).update_status::<StorageVersionMigration>(&key, &body, why).await {
        Err(error) if error.is_not_found() => Ok(Next::Settled),
        written => written.map(|_| Next::Settled).map_err(|error| SyncError::api(doing())(error)),
    }
}
