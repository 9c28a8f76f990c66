//! What becomes of a claim once those who used it are gone. Pure.

use flyball_api::resource_claim::{ConsumerReference, ResourceClaimStatus};
use flyball_api::{Object, ResourceClaim};

/// Keeps an allocated claim from vanishing.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// What is to be done with a claim, in this order.
#[derive(Debug, Default, PartialEq)]
pub struct Upkeep {
    /// Its status, if that changes: users are gone, or its devices are given back.
    pub status: Option<ResourceClaimStatus>,
    /// Nothing holds it any more.
    pub unprotect: bool,
    /// It was made for a pod that needs it no more.
    pub delete: bool,
}

/// What is to be done with a claim of whose users these remain. `is_owner_done` says whether the pod that it was made for
/// will never use it again. Devices are given back with the last user: one that was never used keeps them.
pub fn upkeep(claim: &ResourceClaim, remaining: Vec<ConsumerReference>, is_owner_done: bool) -> Upkeep {
    let is_protected = claim.metadata.has_finalizer(FINALIZER);
    let is_unused = remaining.is_empty();
    let has_lost_users = remaining.len() < claim.status.reserved_for.len();
    let delete = is_unused && is_owner_done;
    let mut status = ResourceClaimStatus { reserved_for: remaining, ..claim.status.clone() };
    if has_lost_users {
        if is_unused && is_protected {
            status.allocation = None;
        }
        let unprotect = is_protected && status.allocation.is_none();
        return Upkeep { status: Some(status), unprotect, delete };
    }
    if is_protected && is_unused && claim.is_deleting() {
        let is_allocated = status.allocation.take().is_some();
        return Upkeep { status: is_allocated.then_some(status), unprotect: true, delete };
    }
    Upkeep { status: None, unprotect: false, delete }
}
