//! What must hold for every plan; for tables, properties and the simulator.

use std::collections::BTreeMap;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Key, Object};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Plan, Write, all_hold};

use super::plan::{Reason, Step, Tag, View};

/// Checks the plan of a round against its view.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check(view: &View, plan: &Plan<Tag>) -> Result<(), String> {
    let pods: BTreeMap<Key, &Pod> = view.pods.iter().map(|pod| (pod.key(), &**pod)).collect();
    let mut steps: BTreeMap<&Key, Vec<Step>> = BTreeMap::new();
    let (mut broken, mut surplus) = (vec![], 0);
    for write in plan.writes() {
        let (key, Tag { reason, step, .. }) = (&write.key, &write.tag);
        let Some(pod) = pods.get(key) else {
            broken.push(format!("{key} does not exist"));
            continue;
        };
        if !applies(view, pod, *reason) {
            broken.push(format!("{key} is not {}", reason.label()));
        }
        if *step == Step::Delete && !deletes_at_once(write, pod) {
            broken.push(format!("{key} is not deleted by its uid, without a grace period"));
        }
        surplus += usize::from(*step == Step::Delete && *reason == Reason::Terminated);
        steps.entry(key).or_default().push(*step);
    }
    for (key, steps) in &steps {
        let is_finished = pods.get(*key).is_some_and(|pod| is_finished(pod));
        let want: &[Step] = if is_finished { &[Step::Delete] } else { &[Step::Mark, Step::Delete] };
        if steps != want {
            broken.push(format!("{key} gets {steps:?}"));
        }
    }
    let finished = view.pods.iter().filter(|pod| is_finished(pod)).count();
    let kept = usize::try_from(view.threshold).unwrap_or_default();
    if surplus > 0 && surplus + kept > finished {
        broken.push(format!("{surplus} of {finished} finished pods are deleted, though {kept} may be kept"));
    }
    all_hold(broken)
}

fn applies(view: &View, pod: &Pod, reason: Reason) -> bool {
    let node = &pod.spec.node_name;
    let is_out_of_service = || {
        let node = view.nodes.get(node);
        node.is_some_and(|node| !node.is_ready() && node.is_declared_out_of_service())
    };
    match reason {
        Reason::Terminated => is_finished(pod) && view.threshold > 0,
        Reason::OutOfService => pod.metadata.is_deleting() && is_out_of_service(),
        Reason::Orphaned => !node.is_empty() && view.gone.contains(node),
        Reason::Unscheduled => pod.metadata.is_deleting() && node.is_empty(),
    }
}

fn is_finished(pod: &Pod) -> bool {
    matches!(pod.status.phase, Phase::Succeeded | Phase::Failed)
}

fn deletes_at_once(write: &Write<Tag>, pod: &Pod) -> bool {
    let Operation::Delete(options) = &write.operation else { return false };
    options.uid.as_ref() == Some(pod.uid()) && options.grace_period == Some(0)
}
