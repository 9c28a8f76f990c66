//! What must hold for every plan; for tables, properties and the simulator.

use flyball_api::pod::{Pod, VolumeSource};
use flyball_api::{Object, PersistentVolumeClaim};
use flyball_runtime::{Plan, all_hold};
use serde_json::Value;

use super::plan::View;
use crate::finalizer::Kept;

/// Checks a plan against its view.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let claim = view.claim;
    let (has, is_deleting) =
        (claim.metadata.has_finalizer(PersistentVolumeClaim::FINALIZER), claim.is_deleting());
    let mut broken = vec![];
    for body in plan.writes().iter().filter_map(|write| write.body()) {
        let after = finalizers(&body);
        let keeps = after.contains(&PersistentVolumeClaim::FINALIZER);
        if has && !keeps {
            broken.extend(why_not_released(view));
        }
        if !has && keeps && is_deleting {
            broken.push("a claim that is being deleted gets the finalizer".to_owned());
        }
        let mut others =
            claim.metadata.finalizers.iter().filter(|own| *own != PersistentVolumeClaim::FINALIZER);
        if !others.all(|other| after.contains(&other.as_str())) {
            broken.push("a finalizer of another component is removed".to_owned());
        }
    }
    if plan.status.is_some() && (is_deleting || !view.reports_unused) {
        broken.push("the condition is set though it is off, or the claim is being deleted".to_owned());
    }
    all_hold(broken)
}

/// Why the claim must keep its finalizer.
fn why_not_released(view: &View<'_>) -> Vec<String> {
    let user = view.pods.iter().find(|pod| is_on_node_with(view.claim, pod));
    let rules = [
        ("it is not being deleted", view.claim.is_deleting()),
        ("pods were not read from the server, or one of them keeps it", view.is_kept == Some(false)),
        ("a pod on a node names it", user.is_none()),
    ];
    let broken = rules.into_iter().filter(|(_, holds)| !holds);
    broken.map(|(why, _)| format!("a claim is released although {why}")).collect()
}

fn is_on_node_with(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let names = |source: &VolumeSource| matches!(source, VolumeSource::Claim { name, .. } if *name == claim.metadata.name);
    !pod.spec.node_name.is_empty()
        && pod.metadata.namespace == claim.metadata.namespace
        && pod.spec.volumes.iter().any(|volume| names(&volume.source))
}

fn finalizers(body: &Value) -> Vec<&str> {
    let all = body.pointer("/metadata/finalizers").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}
