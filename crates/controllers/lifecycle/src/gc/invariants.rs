//! What must hold whatever the collector does, for tests and simulator alike.

use flyball_api::{ObjectMeta, OwnerReference};

use super::plan::Standing;

/// An object may be deleted for want of owners only if it has none that lives: one that exists and is not itself
/// waiting for its dependents to go. `find` looks at the server as it is at the moment of the deletion.
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
