//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use super::plan::{BURST, Plan, Why};
use super::view::View;

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan<'_>) -> Result<(), String> {
    let desired = view.desired();
    let surge = view.max_surge(desired).unwrap_or(0);
    let unavailable = view.max_unavailable(desired).unwrap_or(0).max(usize::from(surge == 0 && desired > 0));
    let spot = |node: &str| view.spots.get(node);
    let alive =
        |node: &str| spot(node).map_or(0, |spot| spot.pods.iter().filter(|pod| pod.is_active()).count());
    let serves = |spot: &super::view::Spot<'_>| {
        spot.fit.should_run
            && spot.pods.iter().any(|pod| !pod.metadata.is_deleting() && view.is_available(pod))
    };
    let serving = view.spots.values().filter(|spot| serves(spot)).count();
    let updated = || plan.delete.iter().filter(|(_, _, why)| *why == Why::Outdated);
    let taken_from_service = updated().filter(|(pod, _, _)| view.is_available(pod)).count();
    let rules = [
        (
            "pods are made only where they should run",
            plan.create.iter().all(|node| spot(node).is_some_and(|spot| spot.fit.should_run)),
        ),
        (
            "no node gets two pods at once",
            plan.create.iter().enumerate().all(|(n, node)| !plan.create[..n].contains(node)),
        ),
        (
            "one living pod per node, or two while surging",
            plan.create.iter().all(|node| alive(node) <= usize::from(view.is_surging())),
        ),
        (
            "without surge a node gets a pod only when it has none at all",
            view.is_surging()
                || plan.create.iter().all(|node| spot(node).is_some_and(|spot| spot.pods.is_empty())),
        ),
        (
            "nobody dies twice",
            plan.delete.iter().all(|(pod, _, why)| *why == Why::NodeGone || !pod.metadata.is_deleting()),
        ),
        (
            "no pod deleted twice in one plan",
            plan.delete.iter().enumerate().all(|(n, (pod, _, _))| {
                plan.delete[..n].iter().all(|(other, _, _)| other.metadata.uid != pod.metadata.uid)
            }),
        ),
        ("at most a burst", plan.create.len() <= BURST && plan.delete.len() <= BURST),
        ("only old pods are updated", updated().all(|(pod, _, _)| !view.is_updated(pod))),
        (
            "an update leaves enough nodes served",
            taken_from_service == 0 || serving.saturating_sub(taken_from_service) + unavailable >= desired,
        ),
        (
            "pods that may stay are not called misplaced without surge",
            view.is_surging()
                || plan.delete.iter().all(|(_, node, why)| {
                    *why != Why::Misplaced || spot(node).is_some_and(|spot| !spot.fit.may_stay)
                }),
        ),
    ];
    rules
        .iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: planned {plan:?}")))
}
