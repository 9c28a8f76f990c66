//! What must hold for every plan and for every deletion, for tests and the simulator.

use flyball_api::{ObjectMeta, OwnerReference};
use flyball_client::Verb;
use flyball_runtime::{Plan, all_hold};

use super::plan::{Standing, View};

/// Checks the plan for one object.
///
/// # Errors
/// The invariants that are broken.
pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let (writes, seen) = (plan.writes(), view.seen);
    let deletes = writes.iter().any(|write| write.verb() == Verb::Delete);
    let is_gone = |standing: &Standing| matches!(standing, Standing::Absent | Standing::Waiting);
    let rules = [
        ("only the object that is examined is written", {
            let key = view.target.object.key();
            writes.iter().all(|write| write.key == key && write.resource == *view.target.resource)
        }),
        ("an object is deleted only if it has owners, and each is gone or waits for it", {
            !deletes || !view.standings.is_empty() && view.standings.iter().all(is_gone)
        }),
        ("a deletion is not planned twice", !deletes || !seen.is_deleting()),
        ("the owners of each object that is written are known", {
            writes.is_empty() || view.standings.len() == seen.owner_references.len()
        }),
    ];
    let broken = rules.iter().filter(|(_, holds)| !holds);
    all_hold(broken.map(|(rule, _)| format!("{rule}: {} {plan}", seen.key())).collect())
}

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
