//! The shell: observe, plan, execute. It reads discovery, and the version that the resource has.

use std::sync::Arc;

use flyball_api::{Key, PartialObject, ResourceType, ResourceVersion, StorageVersionMigration};
use flyball_cache::Informer;
use flyball_client::ListParams;
use flyball_common::served::Served;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::{View, can_migrate, needs_checkpoint, plan};
use crate::storage_version_migrator::served_resource;

/// No namespace can have this name, so that nothing but the version is listed.
const NO_NAMESPACE: &str = "@fake:svm_ns!";

pub(in crate::storage_version_migrator) struct Checkpoints {
    pub(in crate::storage_version_migrator) cx: Arc<Context>,
    pub(in crate::storage_version_migrator) migrations: Arc<Informer<StorageVersionMigration>>,
    pub(in crate::storage_version_migrator) served: Arc<Served>,
}

impl Reconcile for Checkpoints {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(migration) = self.migrations.store().get(key) else { return Ok(Next::Settled) };
        if !needs_checkpoint(&migration) {
            return Ok(Next::Settled);
        }
        let found = served_resource(&self.served, &migration).await?;
        let version = match found.as_ref().filter(|found| can_migrate(found)) {
            Some(found) => Some(self.version(&found.resource).await?),
            None => None,
        };
        let now = self.cx.clock.now();
        let view = View { migration: &migration, found: found.as_ref(), version, now };
        self.cx.executor(key).execute(plan(&view)).await
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
