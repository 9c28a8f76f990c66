//! What must hold for every deletion, for tests and the simulator.

use flyball_api::{ObjectMeta, OwnerReference};

use super::plan::Standing;

/// An object may be deleted only if none of its owners keeps it: one that exists and does not itself wait for its
/// dependents to be deleted. `find` reads the server as it is when the object is deleted.
pub fn may_be_collected(
    object: &ObjectMeta,
    find: impl Fn(&OwnerReference) -> Option<ObjectMeta>,
) -> Result<(), String> {
    if object.owner_references.is_empty() {
        return Err(format!("{} never had an owner", object.key()));
    }
    for reference in &object.owner_references {
        if find(reference).is_some_and(|owner| Standing::of(&owner) == Standing::Solid) {
            return Err(format!("{} still has its owner {}", object.key(), reference.name));
        }
    }
    Ok(())
}
