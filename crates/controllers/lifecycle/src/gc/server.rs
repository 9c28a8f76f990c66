//! What the garbage collector needs of the API server, and what may prevent the examination of an object.

use flyball_api::{Key, ObjectMeta, ResourceType};
use flyball_client::Error;
use flyball_common::discovery::Mark;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Event, Outcome, Plan, SyncError};
use smol_str::SmolStr;

use super::identity::{Identity, Item};

/// The API server and the caches. Tests have one of their own, with faults.
pub trait Server: Send + Sync + 'static {
    /// The resource of a kind, if the server serves it.
    fn resource(&self, api_version: &str, kind: &str) -> Option<ResourceType>;
    /// What is known by now to have changed of the resources that the server serves.
    fn mark(&self) -> Mark;
    /// Whether a round of discovery has begun since then, and all resources that it found are watched.
    fn has_followed(&self, mark: Mark) -> bool;
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
    /// Executes a plan for the object with the key `owner`.
    fn perform(&self, owner: &Key, plan: Plan) -> impl Future<Output = Outcome> + Send;
    fn record(&self, about: &ObjectRef, event: Event);
    /// Checks a plan, in simulations only.
    fn judge(&self, check: impl FnOnce() -> Result<(), String>);
}

/// Why an object cannot be examined.
#[derive(Debug)]
pub(super) enum Problem {
    /// No resource is known for a kind that is referred to.
    UnknownKind(SmolStr, SmolStr),
    /// A cluster-scoped object refers to a namespaced owner, whose namespace is unknown. It is left alone.
    NamespacedOwner,
    /// Each write was refused because the object had changed.
    KeepsChanging,
    Api(String, Error),
}

impl Problem {
    pub(super) fn into_error(self, item: &Item) -> SyncError {
        let doing = format!("collecting {item}");
        match self {
            Self::Api(what, error) => SyncError::api(format!("{doing}: {what}"))(error),
            Self::KeepsChanging => SyncError::other(doing, "it keeps changing").expected(),
            // A custom kind that was not discovered yet, or one that does not exist.
            Self::UnknownKind(api_version, kind) => {
                SyncError::other(doing, format!("no resource is known for {api_version} {kind}")).expected()
            }
            Self::NamespacedOwner => {
                SyncError::other(doing, "cluster-scoped objects cannot refer to namespaced owners").never()
            }
        }
    }
}

/// Whether the server says that this object does not exist, rather than that it does not serve such objects: from the
/// latter nothing follows for its dependents.
pub fn is_object_missing(error: &Error, name: &str) -> bool {
    error.is_not_found() && error.status().is_some_and(|status| status.details.name == name)
}
