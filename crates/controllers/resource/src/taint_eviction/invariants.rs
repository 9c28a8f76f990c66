//! What must hold for every plan; for tables, properties and the simulator.

use flyball_api::Object;
use flyball_runtime::plan::Operation;
use flyball_runtime::{Plan, all_hold};

use super::plan::View;

/// Checks the plan for a pod against its view.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let writes = plan.writes();
    let is_due = view.eviction.is_some_and(|eviction| eviction.due <= view.now);
    let is_deletion = |operation: &Operation| matches!(operation, Operation::Delete(_));
    let is_of_pod = |operation: &Operation| match operation {
        Operation::Delete(options) => options.uid.as_ref() == Some(view.pod.uid()),
        _ => true,
    };
    let deletions: Vec<bool> = writes.iter().map(|write| is_deletion(&write.operation)).collect();
    let rules = [
        ("only a pod whose eviction is due is written", is_due || writes.is_empty()),
        ("a pod that is being deleted is left alone", !view.pod.is_deleting() || writes.is_empty()),
        ("only this pod is written", writes.iter().all(|write| write.key == view.pod.key())),
        ("a pod is deleted by its uid", writes.iter().all(|write| is_of_pod(&write.operation))),
        ("the deletion is the last write", deletions.iter().rev().skip(1).all(|is_deletion| !is_deletion)),
        ("a pod is marked only to be deleted", deletions.last().is_none_or(|is_deletion| *is_deletion)),
        (
            "an eviction that is not due yet is awaited",
            is_due || plan.requeue.is_some() == view.eviction.is_some(),
        ),
    ];
    all_hold(
        rules.into_iter().filter(|(_, holds)| !holds).map(|(rule, _)| format!("{rule}: {plan}")).collect(),
    )
}
