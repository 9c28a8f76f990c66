//! What must hold for every plan; for tables, properties and the simulator.

use flyball_api::pod::Pod;
use flyball_api::taint::Taint;
use flyball_api::{Object, Uid};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Plan, all_hold};

use super::plan::{Tag, View, has_no_execute, no_execute};
use super::schedule::{Eviction, Stage};

/// Checks a plan, and the eviction that is scheduled from now on, against their view.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check(view: &View<'_>, after: Option<&Eviction>, plan: &Plan<Tag>) -> Result<(), String> {
    let writes = plan.writes();
    let removals: Vec<&Operation> =
        writes.iter().map(|write| &write.operation).filter(|it| removes(it)).collect();
    let is_waiting = after.is_some_and(|eviction| eviction.stage == Stage::Scheduled);
    let mut rules = vec![
        ("a pod that is to be evicted later is not evicted now", !is_waiting || removals.is_empty()),
        (
            "a scheduled eviction has a time at which the pod is synced again",
            !is_waiting || plan.requeue.is_some(),
        ),
        ("a pod is evicted once", removals.len() <= 1),
        ("only a pod that exists is written", view.pod.is_some() || writes.is_empty()),
    ];
    if let Some(pod) = view.pod.filter(|_| !removals.is_empty()) {
        let must_be_allowed = view.respects_budgets && pod.is_ready() && !pod.is_deleting();
        let is_allowed = |removal: &&Operation| matches!(removal, Operation::Evict(_));
        rules.extend([
            ("a pod is evicted by its uid", removals.iter().all(|removal| uid(removal) == Some(pod.uid()))),
            (
                "a disruption budget has a say about a ready pod",
                !must_be_allowed || removals.iter().all(is_allowed),
            ),
            ("a pod whose node has no NoExecute taint stays", view.taints.is_none_or(has_no_execute)),
            (
                "a pod that tolerates all taints for ever stays",
                !view.taints.is_some_and(|taints| tolerates_for_ever(pod, taints, view.compares_numbers)),
            ),
            (
                "without its node, a pod is evicted only when its time is up",
                view.taints.is_some() || is_up(view, pod),
            ),
        ]);
    }
    all_hold(
        rules.into_iter().filter(|(_, holds)| !holds).map(|(rule, _)| format!("{rule}: {plan}")).collect(),
    )
}

fn removes(operation: &Operation) -> bool {
    matches!(operation, Operation::Delete(_) | Operation::Evict(_))
}

fn uid(removal: &Operation) -> Option<&Uid> {
    match removal {
        Operation::Delete(options) => options.uid.as_ref(),
        Operation::Evict(uid) => Some(uid),
        _ => None,
    }
}

/// Whether each taint is tolerated, and by no toleration with a limit.
fn tolerates_for_ever(pod: &Pod, taints: &[Taint], compares_numbers: bool) -> bool {
    no_execute(taints).all(|taint| {
        let all = pod.spec.tolerations.iter();
        let mut matching = all.filter(|toleration| toleration.tolerates(taint, compares_numbers)).peekable();
        matching.peek().is_some() && matching.all(|toleration| toleration.toleration_seconds.is_none())
    })
}

fn is_up(view: &View<'_>, pod: &Pod) -> bool {
    view.scheduled.is_some_and(|eviction| eviction.uid == *pod.uid() && eviction.due <= view.now)
}
