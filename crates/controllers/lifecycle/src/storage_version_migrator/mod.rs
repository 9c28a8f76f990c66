//! Rewrites every object of a resource, so that all are stored in the version in which the API server stores new ones.
//!
//! - **Promise**: of the migrations of a resource one runs at a time, oldest first. Every object that was last written
//!   before it started is written again, unchanged; then it has succeeded. If the resource is a custom one, the status of
//!   its definition shows the migration, and afterwards lists only the version that is stored.
//! - **Watches** StorageVersionMigrations and, while one runs, the metadata of the resource. **Writes** their status, the
//!   condition `StorageMigrating` and the stored versions of CustomResourceDefinitions, and empty applies of the objects.
//! - Upstream: `pkg/controller/storageversionmigrator`. What differs: it needs no garbage collector beside it, so that Events can
//!   be migrated, too, and after a migration that failed a definition's stored versions stay as they are.
//!
//! Three parts share the work, as upstream's three controllers do, each with a folder that has its plan and its shell: [`turns`] starts
//! and stops migrations, [`checkpoint`] finds the version up to which objects are old, [`rewriting`] rewrites them. Each writes the
//! status, which triggers the next. Live reads decide in all three: of definitions, of discovery (`served_resource`, here), and of the
//! version that a resource has.

pub mod checkpoint;
pub mod definition;
pub mod rewriting;
pub mod status;
#[cfg(test)]
mod tests;
pub mod turns;

use std::sync::Arc;

use flyball_api::{Key, StorageVersionMigration};
use flyball_cache::{Change, Index};
use flyball_client::DiscoveredResource;
use flyball_common::served::Served;
use flyball_runtime::{Context, StartError, SyncError, Tasks};

use checkpoint::Checkpoints;
use rewriting::Migrator;
use turns::Runner;

/// The name under which the controller runs.
pub const NAME: &str = "storage-version-migrator-controller";

const WORKERS: usize = 5;

/// Migrations by the resource that they migrate.
const BY_RESOURCE: Index<StorageVersionMigration> =
    Index::new("resource", |migration, emit| emit(&resource_of(migration).to_string()));

/// The resource of a migration, as a key: its group and its plural name.
fn resource_of(migration: &StorageVersionMigration) -> Key {
    let resource = &migration.spec.resource;
    Key::new(resource.group.as_str(), resource.resource.as_str())
}

/// The resource of a migration, in the version that the server prefers, if it is served.
async fn served_resource(
    served: &Served,
    migration: &StorageVersionMigration,
) -> Result<Option<DiscoveredResource>, SyncError> {
    let wanted = resource_of(migration);
    let found = served.find(|found| {
        found.preferred && found.resource.group == wanted.namespace && found.resource.plural == wanted.name
    });
    found.await.map_err(SyncError::api(format!("discovering {wanted}")))
}

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    // Upstream gives two of the queues the same name.
    let (running, checked, migrated) = (
        tasks.queue("resource-version-controller"),
        tasks.queue("resource-version-controller"),
        tasks.queue(NAME),
    );
    let migrations = cx.informer::<StorageVersionMigration>();
    migrations.index(&BY_RESOURCE);
    let present = |change: &Change<'_, StorageVersionMigration>| change.new.map(|_| change.key());
    tasks.feed(&migrations, &running, |change| Some(resource_of(change.object())));
    tasks.feed(&migrations, &checked, present);
    tasks.feed(&migrations, &migrated, present);
    let served = Arc::new(Served::new(cx.client.clone()));
    tasks.workers(&running, 1, Arc::new(Runner { cx: cx.clone(), migrations: migrations.clone() }));
    let checkpoints = Checkpoints { cx: cx.clone(), migrations: migrations.clone(), served: served.clone() };
    tasks.workers(&checked, 1, Arc::new(checkpoints));
    tasks.workers(&migrated, WORKERS, Arc::new(Migrator { cx, migrations, served }));
    Ok(())
}
