//! Removes the entries of API servers that are gone from StorageVersions.
//!
//! - **Promise**: a StorageVersion has entries of running API servers only: those that have a lease in `kube-system` with
//!   the label `apiserver.kubernetes.io/identity=kube-apiserver`. A StorageVersion without entries is deleted.
//! - **Watches** StorageVersions and those leases. **Writes** the status of StorageVersions, and deletes them. Whether an
//!   API server is gone is confirmed by a live read of its lease.
//! - Upstream: `pkg/controller/storageversiongc`. What differs: a lease that cannot be read for another reason than that it
//!   is missing does not count as missing, and only the version of a StorageVersion that was read is deleted.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::{Lease, StorageVersion};
use flyball_cache::Filter;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "storageversion-garbage-collector-controller";

const NAMESPACE: &str = "kube-system";
const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const SERVER: &str = "kube-apiserver";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (gone, versions) = (
        tasks.queue("storage_version_garbage_collector_leases"),
        tasks.queue("storage_version_garbage_collector_storageversions"),
    );
    let servers = Filter {
        namespace: Some(NAMESPACE.into()),
        labels: Some(format!("{IDENTITY}={SERVER}")),
        ..Filter::default()
    };
    let leases = cx.informers.filtered::<Lease>(servers);
    let known = cx.informer::<StorageVersion>();
    tasks.feed(&leases, &gone, |change| change.new.is_none().then(|| sync::GoneServer(change.key())));
    tasks.feed(&known, &versions, |change| change.new.map(|_| change.key()));
    let controller = Arc::new(sync::Controller { cx, leases, versions: known });
    tasks.workers(&gone, 1, controller.clone());
    tasks.workers(&versions, 1, controller);
    Ok(())
}
