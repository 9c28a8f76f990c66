//! ReplicaSets that belong to a Deployment: who decides how many pods they have.

use crate::finding::Finding;
use crate::object::Obj;
use crate::world::World;

pub(super) fn of_a_deployment(world: &World, set: Obj<'_>) -> Vec<Finding> {
    let Some(owner) = set.controller().filter(|owner| owner.kind == "Deployment") else { return Vec::new() };
    let revision =
        |object: Obj<'_>| object.annotation("deployment.kubernetes.io/revision").map(str::to_owned);
    let deployment = world.get("Deployment", set.namespace(), owner.name).found();
    let current = deployment.and_then(revision);
    let text = match (revision(set), current) {
        (Some(own), Some(current)) if own == current => {
            format!(
                "it is the current revision ({own}) of Deployment {}, which sets its replicas",
                owner.name
            )
        }
        (Some(own), Some(current)) => {
            format!(
                "it is revision {own} of Deployment {}, which is at revision {current}: it is kept to go back to",
                owner.name
            )
        }
        _ => format!("Deployment {} sets its replicas", owner.name),
    };
    vec![Finding::notes("replica-set-owner", set, text)]
}
