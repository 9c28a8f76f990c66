//! The shells: observe, plan, execute. Live reads decide in all three: of definitions, of discovery, and of the version
//! that a resource has.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, PartialObject, ResourceType, ResourceVersion, StorageVersionMigration};
use flyball_cache::Informer;
use flyball_client::{DiscoveredResource, ListParams};
use flyball_common::served::Served;
use flyball_runtime::{Context, Next, Plan, Reconcile, SyncError};
use serde_json::Value;

use super::definition::DEFINITIONS;
use super::plan::{self, Checkpoint};
use super::{BY_RESOURCE, resource_of};

/// No namespace can have this name, so that nothing but the version is listed.
const NO_NAMESPACE: &str = "@fake:svm_ns!";
/// How long a worker waits for a cache, so that other migrations get their turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many objects are planned at a time, so that the plan for a large resource stays small.
const BATCH: usize = 500;

/// Starts and stops the migrations of a resource, one turn at a time: the change of a status causes the next sync.
pub(super) struct Runner {
    pub(super) cx: Arc<Context>,
    pub(super) migrations: Arc<Informer<StorageVersionMigration>>,
}

impl Reconcile for Runner {
    async fn sync(&self, resource: &Key) -> Result<Next, SyncError> {
        let migrations = self.migrations.store().by(&BY_RESOURCE, &resource.to_string());
        let Some(turn) = plan::turn(&migrations) else { return Ok(Next::Settled) };
        let definition = self.definition(resource).await?;
        let plan = plan::plan_turn(turn, definition.as_ref(), self.cx.clock.now());
        self.cx.executor(resource).execute(plan).await
    }
}

impl Runner {
    /// The definition of the resource, if it is a custom one.
    async fn definition(&self, resource: &Key) -> Result<Option<Value>, SyncError> {
        let key = Key::cluster(format!("{}.{}", resource.name, resource.namespace).as_str());
        match self.cx.client.get_dynamic(&DEFINITIONS, &key).await {
            Err(error) if error.is_not_found() => Ok(None),
            read => read.map(Some).map_err(SyncError::api(format!("reading definition {key}"))),
        }
    }
}

/// Finds the version up to which objects are rewritten.
pub(super) struct Checkpoints {
    pub(super) cx: Arc<Context>,
    pub(super) migrations: Arc<Informer<StorageVersionMigration>>,
    pub(super) served: Arc<Served>,
}

impl Reconcile for Checkpoints {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(migration) = self.migrations.store().get(key) else { return Ok(Next::Settled) };
        if !plan::needs_checkpoint(&migration) {
            return Ok(Next::Settled);
        }
        let found = find(&self.served, &migration).await?;
        let version = match found.as_ref().filter(|found| plan::can_migrate(found)) {
            Some(found) => Some(self.version(&found.resource).await?),
            None => None,
        };
        let now = self.cx.clock.now();
        let view = Checkpoint { migration: &migration, found: found.as_ref(), version, now };
        self.cx.executor(key).execute(plan::plan_checkpoint(&view)).await
    }
}

impl Checkpoints {
    async fn version(&self, resource: &ResourceType) -> Result<ResourceVersion, SyncError> {
        let namespace = resource.namespaced.then_some(NO_NAMESPACE);
        let params = ListParams { limit: Some(1), ..ListParams::default() };
        let list = self.cx.client.list_as::<PartialObject>(resource, namespace, &params).await;
        let list = list.map_err(SyncError::api(format!("finding the version of {resource}")))?;
        Ok(list.resource_version)
    }
}

/// Rewrites the objects of a migration.
pub(super) struct Migrator {
    pub(super) cx: Arc<Context>,
    pub(super) migrations: Arc<Informer<StorageVersionMigration>>,
    pub(super) served: Arc<Served>,
}

impl Reconcile for Migrator {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(migration) = self.migrations.store().get(key) else { return Ok(Next::Settled) };
        if !plan::needs_rewrite(&migration) {
            return Ok(Next::Settled);
        }
        let checkpoint = migration.status.resource_version.parse().ok();
        let found = find(&self.served, &migration).await?;
        let (Some(found), Some(checkpoint)) = (found, checkpoint) else {
            let plan = plan::plan_impossible(&migration, checkpoint, self.cx.clock.now());
            return self.cx.executor(key).execute(plan).await;
        };
        let resource = &found.resource;
        let old = plan::old(self.objects(resource, checkpoint).await?, checkpoint);
        for batch in old.chunks(BATCH) {
            let rewritten = self.cx.executor(key).without_barrier();
            let rewritten = rewritten.perform(plan::plan_rewrite(resource, batch).effects).await;
            let error = rewritten.failure().and_then(|failure| failure.error.as_ref());
            if let Some(end) = error.and_then(|error| plan::refusal(&migration, error, self.cx.clock.now())) {
                return self.cx.executor(key).execute(Plan::of([end])).await;
            }
            rewritten.result()?;
        }
        self.cx.informers.release(resource);
        let end = plan::success(&migration, self.cx.clock.now());
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
        match tokio::time::timeout(PATIENCE, filled).await {
            Ok(()) => Ok(objects.store().list()),
            Err(_) => {
                let problem = "the cache has not reached the checkpoint yet";
                Err(SyncError::other(format!("migrating {resource}"), problem).expected())
            }
        }
    }
}

/// The resource of a migration, in the version that the server prefers. If it is not known, discovery is repeated.
async fn find(
    served: &Served,
    migration: &StorageVersionMigration,
) -> Result<Option<DiscoveredResource>, SyncError> {
    let wanted = resource_of(migration);
    let failed = || format!("discovering {wanted}");
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
