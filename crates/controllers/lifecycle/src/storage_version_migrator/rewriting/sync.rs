//! The shell: observe, plan, execute, in batches. It reads discovery, and the objects from a cache that has reached the checkpoint.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, PartialObject, ResourceType, ResourceVersion, StorageVersionMigration};
use flyball_cache::Informer;
use flyball_common::served::Served;
use flyball_runtime::{Context, Next, Plan, Reconcile, SyncError};

use super::plan::{impossible, needs_rewrite, old, plan, refusal, success};
use crate::storage_version_migrator::served_resource;

/// How long a worker waits for a cache, so that other migrations get their turn.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many objects are planned at a time, so that the plan for a large resource stays small.
const BATCH: usize = 500;

pub(in crate::storage_version_migrator) struct Migrator {
    pub(in crate::storage_version_migrator) cx: Arc<Context>,
    pub(in crate::storage_version_migrator) migrations: Arc<Informer<StorageVersionMigration>>,
    pub(in crate::storage_version_migrator) served: Arc<Served>,
}

impl Reconcile for Migrator {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(migration) = self.migrations.store().get(key) else { return Ok(Next::Settled) };
        if !needs_rewrite(&migration) {
            return Ok(Next::Settled);
        }
        let checkpoint = migration.status.resource_version.parse().ok();
        let found = served_resource(&self.served, &migration).await?;
        let (Some(found), Some(checkpoint)) = (found, checkpoint) else {
            let end = impossible(&migration, checkpoint, self.cx.clock.now());
            return self.cx.executor(key).execute(end).await;
        };
        let resource = &found.resource;
        let old = old(self.objects(resource, checkpoint).await?, checkpoint);
        for batch in old.chunks(BATCH) {
            let rewritten = self.cx.executor(key).without_barrier();
            let rewritten = rewritten.run(plan(resource, batch)).await;
            let error = rewritten.outcome.failure().and_then(|failure| failure.error.as_ref());
            if let Some(end) = error.and_then(|error| refusal(&migration, error, self.cx.clock.now())) {
                return self.cx.executor(key).execute(Plan::of([end])).await;
            }
            rewritten.result()?;
        }
        self.cx.informers.release(resource);
        let end = success(&migration, self.cx.clock.now());
        self.cx.executor(key).execute(Plan::of([end])).await
    }
}

impl Migrator {
    /// The objects of a resource, from a cache that has reached this version.
    async fn objects(
        &self,
        resource: &ResourceType,
        version: ResourceVersion,
    ) -> Result<Vec<Arc<PartialObject>>, SyncError> {
        let objects = self.cx.informers.dynamic(resource);
        let filled = async {
            objects.synced().await;
            objects.reached(version).await;
        };
        match tokio::time::timeout(TIMEOUT, filled).await {
            Ok(()) => Ok(objects.store().list()),
            Err(_) => {
                let problem = "the cache has not reached the checkpoint yet";
                Err(SyncError::other(format!("migrating {resource}"), problem).expected())
            }
        }
    }
}
