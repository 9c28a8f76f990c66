//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::pod::Pod;

use super::identity;
use super::plan::{Action, BURST, Plan, Why};
use super::view::{Roster, View};

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan<'_>) -> Result<(), String> {
    let roster = Roster::of(view);
    let actions: Vec<&Action<'_>> = plan.stages.iter().flatten().flatten().collect();
    let created: Vec<i32> = actions
        .iter()
        .filter_map(|a| if let Action::Create { ordinal, .. } = a { Some(*ordinal) } else { None })
        .collect();
    let deleted: Vec<_> = actions
        .iter()
        .filter_map(|a| if let Action::Delete { pod, why } = a { Some((*pod, *why)) } else { None })
        .collect();
    let ordered = view.is_ordered();
    let first_not_available = view
        .ordinals()
        .find(|ordinal| roster.replicas.get(ordinal).is_none_or(|pod| view.is_unavailable(pod)));
    let updated = deleted.iter().filter(|(_, why)| *why == Why::Outdated);
    let taken_from_service = updated.clone().filter(|(pod, _)| !view.is_unavailable(pod)).count();
    let available = roster.replicas.values().filter(|pod| !view.is_unavailable(pod)).count();
    let least = i64::from(view.wanted()) - view.max_unavailable().unwrap_or(1);
    let numbers = |wanted: Why| -> Vec<i32> {
        let chosen = deleted.iter().filter(|(_, why)| *why == wanted);
        chosen.filter_map(|(pod, _)| identity::ordinal(pod)).collect()
    };
    let is_descending = |numbers: &[i32]| numbers.is_sorted_by(|one, next| one > next);
    let (scaled_down, outdated) = (numbers(Why::ScaledDown), numbers(Why::Outdated));
    let is_passed_over = |(ordinal, pod): (&i32, &&Pod)| {
        let is_old =
            identity::revision(pod) != view.update && !pod.metadata.is_deleting() && !pod.is_finished();
        is_old && outdated.iter().min().is_some_and(|lowest| ordinal > lowest) && !outdated.contains(ordinal)
    };
    let rules = [
        ("a set that is being deleted is left alone", !view.set.metadata.is_deleting() || actions.is_empty()),
        (
            "only missing wanted ordinals are made",
            created
                .iter()
                .all(|ordinal| view.ordinals().contains(ordinal) && !roster.replicas.contains_key(ordinal)),
        ),
        ("an ordered set makes one pod at a time", !ordered || created.len() <= 1),
        (
            "an ordered set makes a pod only when all before it are available",
            !ordered || created.iter().all(|made| first_not_available.is_none_or(|first| first >= *made)),
        ),
        (
            "an ordered set deletes one pod at a time",
            !ordered || view.obeys_max_unavailable || deleted.len() <= 1,
        ),
        ("pods are made from the first", created.is_sorted()),
        ("pods are scaled away from the last", is_descending(&scaled_down)),
        (
            "an ordered set scales its last pod away",
            !ordered || scaled_down.iter().all(|gone| roster.condemned.keys().next_back() == Some(gone)),
        ),
        ("pods are updated from the last", is_descending(&outdated)),
        ("no old pod is passed over", !roster.replicas.iter().any(is_passed_over)),
        ("at most a burst", created.len() <= BURST),
        ("nobody dies twice", deleted.iter().all(|(pod, _)| !pod.metadata.is_deleting())),
        (
            "no pod deleted twice in one plan",
            deleted.iter().enumerate().all(|(n, (pod, _))| {
                deleted[..n].iter().all(|(other, _)| other.metadata.uid != pod.metadata.uid)
            }),
        ),
        (
            "only unwanted ordinals are scaled away",
            deleted.iter().all(|(pod, why)| {
                let wanted = identity::ordinal(pod).is_some_and(|ordinal| view.ordinals().contains(&ordinal));
                (*why == Why::ScaledDown) != wanted
            }),
        ),
        (
            "an ordered set scales down only while all it wants are available",
            !ordered
                || first_not_available.is_none()
                || deleted.iter().all(|(_, why)| *why != Why::ScaledDown),
        ),
        (
            "no pod below the partition is updated",
            updated.clone().all(|(pod, _)| {
                identity::ordinal(pod).is_some_and(|ordinal| ordinal >= view.first_updated())
            }),
        ),
        (
            "no pod of the update revision is updated",
            updated.clone().all(|(pod, _)| identity::revision(pod) != view.update),
        ),
        (
            // Upstream: a parallel set without the gate looks only at the pods above the one it updates.
            "updating leaves enough pods in service",
            taken_from_service == 0
                || (!ordered && !view.obeys_max_unavailable)
                || i64::try_from(available - taken_from_service).unwrap_or(0) >= least,
        ),
        (
            "without the gate one pod is updated at a time, and all above it serve",
            view.obeys_max_unavailable
                || updated.clone().count() <= 1
                    && updated.clone().filter_map(|(pod, _)| identity::ordinal(pod)).all(|ordinal| {
                        let above = ordinal + 1..view.ordinals().end;
                        above.into_iter().all(|above| {
                            roster.replicas.get(&above).is_some_and(|pod| !view.is_unavailable(pod))
                        })
                    }),
        ),
        (
            "a ready pod is never called stuck",
            deleted.iter().all(|(pod, why)| *why != Why::Stuck || !view.is_available(pod)),
        ),
    ];
    rules
        .iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: planned {plan:?}")))
}
