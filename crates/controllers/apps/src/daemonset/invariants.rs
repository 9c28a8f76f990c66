//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::pod::Pod;
use flyball_runtime::Plan;

use super::plan::{BURST, Step, Why, created, deleted};
use super::view::{Spot, View};

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan<Step<'_>>) -> Result<(), String> {
    let (create, delete) = (created(plan), deleted(plan));
    let desired = view.desired();
    let surge = view.max_surge(desired).unwrap_or(0);
    let unavailable = view.max_unavailable(desired).unwrap_or(0).max(usize::from(surge == 0 && desired > 0));
    let spot = |node: &str| view.spots.get(node);
    let alive =
        |node: &str| spot(node).map_or(0, |spot| spot.pods.iter().filter(|pod| pod.is_active()).count());
    let serves = |spot: &Spot<'_>| {
        spot.fit.should_run
            && spot.pods.iter().any(|pod| !pod.metadata.is_deleting() && view.is_available(pod))
    };
    let serving = view.spots.values().filter(|spot| serves(spot)).count();
    let updated = || delete.iter().filter(|one| one.why == Why::Outdated);
    let taken_from_service = updated().filter(|one| view.is_available(one.pod)).count();
    let surging = view.spots.values().filter(|spot| is_surging(view, spot)).count();
    let surged = create.iter().filter(|node| {
        spot(node).is_some_and(|spot| living(view, spot, false).iter().any(|pod| view.is_available(pod)))
    });
    let surged = surged.count();
    let rules = [
        (
            "pods are created only where they should run",
            create.iter().all(|node| spot(node).is_some_and(|spot| spot.fit.should_run)),
        ),
        (
            "no node gets two pods at once",
            create.iter().enumerate().all(|(n, node)| !create[..n].contains(node)),
        ),
        (
            "one living pod per node, or two while surging",
            create.iter().all(|node| alive(node) <= usize::from(view.is_surging())),
        ),
        ("no more nodes surge than may", surged == 0 || surging + surged <= surge),
        (
            "without surge a node gets a pod only when it has none at all",
            view.is_surging()
                || create.iter().all(|node| spot(node).is_some_and(|spot| spot.pods.is_empty())),
        ),
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
        ("at most a burst", create.len() <= BURST && delete.len() <= BURST),
        ("only old pods are updated", updated().all(|one| !view.is_updated(one.pod))),
        (
            "an update leaves enough nodes served",
            taken_from_service == 0 || serving.saturating_sub(taken_from_service) + unavailable >= desired,
        ),
        (
            "pods that may stay are not called misplaced without surge",
            view.is_surging()
                || delete.iter().all(|one| {
                    one.why != Why::Misplaced || spot(one.node).is_some_and(|spot| !spot.fit.may_stay)
                }),
        ),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: planned {plan}")))
}

/// The running pods of a node that have the current template, or those that have not.
fn living<'a>(view: &View<'_>, spot: &Spot<'a>, updated: bool) -> Vec<&'a Pod> {
    let is_meant = |pod: &&Pod| !pod.metadata.is_deleting() && view.is_updated(pod) == updated;
    spot.pods.iter().copied().filter(is_meant).collect()
}

/// Whether a node has an old pod besides a new one that is not available yet.
fn is_surging(view: &View<'_>, spot: &Spot<'_>) -> bool {
    let (old, new) = (living(view, spot, false), living(view, spot, true));
    old.len() > 1 || new.len() > 1 || old.len() == 1 && new.iter().any(|pod| !view.is_available(pod))
}
