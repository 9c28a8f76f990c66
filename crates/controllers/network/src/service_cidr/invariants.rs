//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use flyball_runtime::{Plan, all_hold};
use serde_json::Value;

use super::plan::{View, allocated};
use super::ranges::provides;

pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let mut broken = vec![];
    let is_deleting = view.cidr.metadata.is_deleting();
    for body in plan.writes().iter().filter_map(|write| write.body()) {
        if is_deleting && body.pointer("/metadata/finalizers").is_some() {
            broken.push("a ServiceCIDR that is being deleted gets a finalizer".into());
        }
        if removes_finalizer(&body) {
            broken.extend(orphans(view));
        }
        if !is_deleting && removes_finalizer(&body) {
            broken.push("a ServiceCIDR that is not being deleted loses its finalizer".into());
        }
        let ready = body.pointer("/status/conditions/0/status").map(|status| status == "True");
        if ready.is_some_and(|ready| ready == is_deleting) {
            broken.push(format!("Ready={ready:?} while deleting={is_deleting}"));
        }
    }
    if plan.requeue.is_some() && !is_deleting {
        broken.push("a ServiceCIDR that is not being deleted waits for the grace period".into());
    }
    all_hold(broken)
}

/// Whether a patch removes the finalizer.
pub(super) fn removes_finalizer(patch: &Value) -> bool {
    patch.pointer("/metadata/$deleteFromPrimitiveList~1finalizers").is_some()
}

/// Addresses that would be in no ServiceCIDR without this one.
fn orphans(view: &View<'_>) -> Vec<String> {
    let others = || view.all.iter().filter(|other| other.metadata.name != view.cidr.metadata.name);
    let in_use = view.addresses.iter().filter_map(|address| allocated(address));
    let lost = in_use
        .filter(|address| provides(view.cidr, *address) && !others().any(|other| provides(other, *address)));
    lost.map(|address| format!("{address} would be in no ServiceCIDR")).collect()
}
