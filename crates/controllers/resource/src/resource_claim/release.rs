//! Deallocates or deletes a ResourceClaim once its consumers are gone. Pure.

use flyball_api::resource_claim::{ConsumerReference, ResourceClaimStatus};
use flyball_api::{Key, Object, ObjectMeta, ResourceClaim};
use flyball_runtime::decisions::Subject;
use flyball_runtime::{ErrorKinds, Plan, Waiting, Write, exactly};

use super::consumer::reserved_for;

/// Prevents the deletion of an allocated ResourceClaim.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// What to do with a ResourceClaim, in this order.
#[derive(Debug, Default, PartialEq)]
pub struct Release {
    /// The status without the consumers that are gone, and without the allocation if there are no others.
    pub status: Option<ResourceClaimStatus>,
    pub remove_finalizer: bool,
    /// It was generated for a pod that no longer needs it.
    pub delete: bool,
}

/// What to do with a ResourceClaim of which these consumers remain. `is_owner_done` says whether the pod that it was
/// generated for will never use it again. Devices are deallocated with the last consumer: a ResourceClaim that was never
/// reserved keeps them.
pub fn release(claim: &ResourceClaim, remaining: Vec<ConsumerReference>, is_owner_done: bool) -> Release {
    let is_protected = claim.metadata.has_finalizer(FINALIZER);
    let is_unused = remaining.is_empty();
    let has_lost_consumers = remaining.len() < claim.status.reserved_for.len();
    let delete = is_unused && is_owner_done;
    let mut status = ResourceClaimStatus { reserved_for: remaining, ..claim.status.clone() };
    if has_lost_consumers {
        if is_unused && is_protected {
            status.allocation = None;
        }
        let remove_finalizer = is_protected && status.allocation.is_none();
        return Release { status: Some(status), remove_finalizer, delete };
    }
    if is_protected && is_unused && claim.is_deleting() {
        let is_allocated = status.allocation.take().is_some();
        return Release { status: is_allocated.then_some(status), remove_finalizer: true, delete };
    }
    Release { status: None, remove_finalizer: false, delete }
}

/// Writes the status. The rest follows from the metadata that this returns: see [`after`].
pub fn plan(claim: &ResourceClaim, release: &Release) -> Plan {
    let write = |status| Write::status(claim, status).why("its consumers are gone");
    let consumers = release.status.as_ref().map_or(&claim.status.reserved_for, |status| &status.reserved_for);
    let waiting = consumers.first().and_then(|consumer| {
        let key = Key::new(claim.metadata.namespace.as_str(), consumer.name.as_str());
        let object = Subject::new(reserved_for(consumer)?.name(), &key);
        Some(Waiting::Object { object, until: "to end: the ResourceClaim is reserved for it".into() })
    });
    Plan::of(release.status.as_ref().map(write)).waiting_for(waiting)
}

/// Removes the finalizer and deletes the ResourceClaim, after its status was written with this result.
pub fn after(claim: &ResourceClaim, release: &Release, written: Option<&ObjectMeta>) -> Vec<Write> {
    let unprotected = || {
        let mut current = claim.clone();
        current.metadata = written.unwrap_or(&claim.metadata).clone();
        current.status = release.status.clone().unwrap_or_else(|| claim.status.clone());
        let kept = current.metadata.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER);
        current.metadata.finalizers = kept.cloned().collect();
        Write::replace(&current).ignore(ErrorKinds::NOT_FOUND).why("its devices are deallocated")
    };
    let delete = || {
        let delete = Write::delete_with::<ResourceClaim>(claim.key(), exactly(&claim.metadata));
        delete.ignore_only(ErrorKinds::NOT_FOUND).why("the pod that it was generated for has ended")
    };
    let unprotected = release.remove_finalizer.then(unprotected);
    unprotected.into_iter().chain(release.delete.then(delete)).collect()
}
