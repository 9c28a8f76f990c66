//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::pod::Pod;
use flyball_runtime::Plan;

use super::plan::{BURST, Step, Why, created, deleted};
use super::view::{DaemonNode, View};

type Rules = Vec<(&'static str, bool)>;

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan<Step<'_>>) -> Result<(), String> {
    let rules = [creations(view, plan), deletions(view, plan), updates(view, plan)].concat();
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: planned {plan}")))
}

fn creations(view: &View<'_>, plan: &Plan<Step<'_>>) -> Rules {
    let create = created(plan);
    let on_node = |node: &str| view.daemon_nodes.get(node);
    let alive = |node: &str| {
        on_node(node).map_or(0, |on_node| on_node.pods.iter().filter(|pod| pod.is_active()).count())
    };
    vec![
        (
            "pods are created only where they should run",
            create.iter().all(|node| on_node(node).is_some_and(|on_node| on_node.fit.should_run)),
        ),
        (
            "no node gets two pods at once",
            create.iter().enumerate().all(|(n, node)| !create[..n].contains(node)),
        ),
        (
            "one living pod per node, or two while surging",
            create.iter().all(|node| alive(node) <= usize::from(view.is_surging())),
        ),
        (
            "without surge a node gets a pod only when it has none at all",
            view.is_surging()
                || create.iter().all(|node| on_node(node).is_some_and(|on_node| on_node.pods.is_empty())),
        ),
        ("at most a burst of creations", create.len() <= BURST),
    ]
}

fn deletions(view: &View<'_>, plan: &Plan<Step<'_>>) -> Rules {
    let delete = deleted(plan);
    let may_stay = |node: &str| view.daemon_nodes.get(node).is_none_or(|on_node| on_node.fit.may_stay);
    vec![
        (
            "no pod that is being deleted is deleted again",
            delete.iter().all(|one| one.why == Why::NodeGone || !one.pod.metadata.is_deleting()),
        ),
        (
            "no pod deleted twice in one plan",
            delete.iter().enumerate().all(|(n, one)| {
                delete[..n].iter().all(|other| other.pod.metadata.uid != one.pod.metadata.uid)
            }),
        ),
        ("at most a burst of deletions", delete.len() <= BURST),
        (
            "pods that may stay are not called misplaced without surge",
            view.is_surging() || delete.iter().all(|one| one.why != Why::Misplaced || !may_stay(one.node)),
        ),
    ]
}

/// How many nodes an update may leave without a pod that serves, and with two pods.
fn updates(view: &View<'_>, plan: &Plan<Step<'_>>) -> Rules {
    let (create, delete) = (created(plan), deleted(plan));
    let desired = view.desired();
    let surge = view.max_surge(desired).unwrap_or(0);
    let unavailable = view.max_unavailable(desired).unwrap_or(0).max(usize::from(surge == 0 && desired > 0));
    let serves = |on_node: &DaemonNode<'_>| {
        on_node.fit.should_run
            && on_node.pods.iter().any(|pod| !pod.metadata.is_deleting() && view.is_available(pod))
    };
    let serving = view.daemon_nodes.values().filter(|on_node| serves(on_node)).count();
    let updated = || delete.iter().filter(|one| one.why == Why::Outdated);
    let taken_from_service = updated().filter(|one| view.is_available(one.pod)).count();
    let surging = view.daemon_nodes.values().filter(|on_node| is_surging(view, on_node)).count();
    let has_old =
        |on_node: &DaemonNode<'_>| living(view, on_node, false).iter().any(|pod| view.is_available(pod));
    let surged = create.iter().filter(|node| view.daemon_nodes.get(**node).is_some_and(has_old)).count();
    vec![
        ("no more nodes surge than may", surged == 0 || surging + surged <= surge),
        ("only old pods are updated", updated().all(|one| !view.is_updated(one.pod))),
        (
            "an update leaves enough nodes served",
            taken_from_service == 0 || serving.saturating_sub(taken_from_service) + unavailable >= desired,
        ),
    ]
}

/// The running pods of a node that have the current template, or those that have not.
fn living<'a>(view: &View<'_>, on_node: &DaemonNode<'a>, updated: bool) -> Vec<&'a Pod> {
    let is_meant = |pod: &&Pod| !pod.metadata.is_deleting() && view.is_updated(pod) == updated;
    on_node.pods.iter().copied().filter(is_meant).collect()
}

/// Whether a node has an old pod besides a new one that is not available yet.
fn is_surging(view: &View<'_>, on_node: &DaemonNode<'_>) -> bool {
    let (old, new) = (living(view, on_node, false), living(view, on_node, true));
    old.len() > 1 || new.len() > 1 || old.len() == 1 && new.iter().any(|pod| !view.is_available(pod))
}
