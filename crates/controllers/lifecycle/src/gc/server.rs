//! What the collector asks of the API server, and what may stand in the way.

use flyball_api::{ObjectMeta, ResourceType};
use flyball_client::{DeleteOptions, Error, Patch};
use flyball_runtime::SyncError;
use smol_str::SmolStr;

use super::identity::{Identity, Item};

/// What the collector asks of the API server.
pub trait Server: Send + Sync + 'static {
    /// Where the objects of a kind are, if the server serves it.
    fn resource(&self, api_version: &str, kind: &str) -> Option<ResourceType>;
    /// Whether all that the server serves is followed, as far as one can know.
    fn is_followed(&self) -> bool;
    /// How often the server has been seen to go back to an earlier state, as after a restore of etcd.
    fn era(&self) -> u64;
    /// The object as a cache has it, perhaps stale.
    fn cached(&self, resource: &ResourceType, object: &Identity) -> Option<ObjectMeta>;
    /// The object of that name as it is now.
    fn read(
        &self,
        resource: &ResourceType,
        object: &Identity,
    ) -> impl Future<Output = Result<ObjectMeta, Error>> + Send;
    fn delete(
        &self,
        resource: &ResourceType,
        object: &Identity,
        options: DeleteOptions,
        why: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    fn patch(
        &self,
        resource: &ResourceType,
        object: &Identity,
        patch: Patch,
        why: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Tells the user of a reference into another namespace.
    fn tell_misplaced(&self, dependent: &Identity, owner: &Identity);
}

/// Why an object cannot be looked at.
#[derive(Debug)]
pub(super) enum Problem {
    /// No resource is known for a kind that is referred to.
    UnknownKind(SmolStr, SmolStr),
    /// A cluster-scoped object refers to a namespaced one. It is left alone: nobody can say which one is meant.
    NamespacedOwner,
    /// Others change it faster than a change of ours gets through.
    KeepsChanging,
    Api(String, Error),
}

impl Problem {
    /// What is told about it.
    pub(super) fn into_error(self, item: &Item) -> SyncError {
        let doing = format!("collecting {item}");
        match self {
            Self::Api(what, error) => SyncError::api(format!("{doing}: {what}"))(error),
            Self::KeepsChanging => SyncError::other(doing, "it keeps changing").expected(),
            // A custom kind that discovery has not shown yet, or one that never was: nobody can tell.
            Self::UnknownKind(api_version, kind) => {
                SyncError::other(doing, format!("no resource is known for {api_version} {kind}")).expected()
            }
            Self::NamespacedOwner => {
                SyncError::other(doing, "cluster-scoped objects cannot refer to namespaced owners").never()
            }
        }
    }
}

/// Whether the server says that this object does not exist, rather than that it does not serve such objects
/// (any more, or yet): from that nothing follows for its dependents.
pub fn is_object_missing(error: &Error, name: &str) -> bool {
    error.is_not_found() && error.status().is_some_and(|status| status.details.name == name)
}
