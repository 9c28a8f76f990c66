//! Writes every object of a resource anew, so that all are stored in the version that the API server writes today.
//!
//! - **Promise**: of the migrations of a resource one runs at a time, oldest first. Every object that was last written
//!   before it began is written once more, unchanged; then it has succeeded. If the resource is a custom one, its
//!   definition says that it is being migrated, and afterwards which version alone is stored.
//! - **Watches** StorageVersionMigrations and, while it runs, the metadata of the resource. **Writes** their status, the
//!   condition `StorageMigrating` and the stored versions of CustomResourceDefinitions, and empty patches of the objects.
//! - Upstream: `pkg/controller/storageversionmigrator`. What differs: it needs no garbage collector beside it, and after a
//!   migration that failed a definition's stored versions stay as they are.
//!
//! In reading order: `runner` says which migration runs, `checkpoint` up to which version objects are old, `migrate`
//! writes them anew. Each writes one thing, and the change of the status hands over to the next.

mod checkpoint;
mod crd;
mod migrate;
pub mod plan;
mod runner;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::{Key, StorageVersionMigration};
use flyball_cache::{Change, Index};
use flyball_common::served::Served;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "storage-version-migrator-controller";

const WORKERS: usize = 5;

/// Migrations by what they migrate.
const BY_RESOURCE: Index<StorageVersionMigration> =
    Index::new("resource", |migration, emit| emit(&resource_of(migration).to_string()));

/// What is migrated, as a key: the group and the name of the resource.
fn resource_of(migration: &StorageVersionMigration) -> Key {
    let resource = &migration.spec.resource;
    Key::new(resource.group.as_str(), resource.resource.as_str())
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
    tasks.workers(&running, 1, Arc::new(runner::Runner { cx: cx.clone(), migrations: migrations.clone() }));
    let checkpoints =
        checkpoint::Checkpoints { cx: cx.clone(), migrations: migrations.clone(), served: served.clone() };
    tasks.workers(&checked, 1, Arc::new(checkpoints));
    tasks.workers(&migrated, WORKERS, Arc::new(migrate::Migrator { cx, migrations, served }));
    Ok(())
}
