//! The shell that says which migration of a resource runs.

use std::sync::Arc;

use flyball_api::{Key, Object, StorageVersionMigration};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::{begun, definition_begun, definition_ended, ended, has_succeeded, turn};
use super::{BY_RESOURCE, crd, migrate};

pub(super) struct Runner {
    pub(super) cx: Arc<Context>,
    pub(super) migrations: Arc<Informer<StorageVersionMigration>>,
}

impl Reconcile for Runner {
    async fn sync(&self, resource: &Key) -> Result<Next, SyncError> {
        let mut migrations = self.migrations.store().by(&BY_RESOURCE, &resource.to_string());
        migrations.sort_unstable_by_key(|migration| migration.key());
        let (turn, now) = (turn(&migrations), self.cx.clock.now());
        for migration in turn.over {
            let said = |definition: &_| definition_ended(definition, has_succeeded(migration), now);
            crd::tell(&self.cx, migration, "its migration is over", said).await?;
            migrate::write(&self.cx, resource, &ended(migration, now), "it is over").await?;
        }
        if let Some(migration) = turn.next {
            let said = |definition: &_| definition_begun(definition, &migration.metadata.name, now);
            crd::tell(&self.cx, migration, "its migration begins", said).await?;
            migrate::write(&self.cx, resource, &begun(migration, now), "it is its turn").await?;
        }
        Ok(Next::Settled)
    }
}
