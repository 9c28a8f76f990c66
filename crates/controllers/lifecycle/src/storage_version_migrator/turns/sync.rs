//! The shell: observe, plan, execute. It reads the definition of the resource live.

use std::sync::Arc;

use flyball_api::{Key, StorageVersionMigration};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde_json::Value;

use super::plan::{plan, turn};
use crate::storage_version_migrator::BY_RESOURCE;
use crate::storage_version_migrator::definition::DEFINITIONS;

pub(in crate::storage_version_migrator) struct Runner {
    pub(in crate::storage_version_migrator) cx: Arc<Context>,
    pub(in crate::storage_version_migrator) migrations: Arc<Informer<StorageVersionMigration>>,
}

impl Reconcile for Runner {
    async fn sync(&self, resource: &Key) -> Result<Next, SyncError> {
        let migrations = self.migrations.store().by(&BY_RESOURCE, &resource.to_string());
        let Some(turn) = turn(&migrations) else { return Ok(Next::Settled) };
        let definition = self.definition(resource).await?;
        let plan = plan(turn, definition.as_ref(), self.cx.clock.now());
        self.cx.executor(resource).execute(plan).await
    }
}

impl Runner {
    /// The definition of the resource, if it is a custom one.
    async fn definition(&self, resource: &Key) -> Result<Option<Value>, SyncError> {
        let key = Key::cluster(format!("{}.{}", resource.name, resource.namespace).as_str());
        self.cx.find_dynamic(&DEFINITIONS, &key).await
    }
}
