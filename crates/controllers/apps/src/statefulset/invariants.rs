//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::pod::Pod;
use flyball_api::{PersistentVolumeClaim, Resource};
use flyball_client::Verb;
use flyball_runtime::{Plan, Write};

use super::identity;
use super::plan::{BURST, Why};
use super::view::{Roster, View};

/// The names of the objects of a kind that a plan creates.
fn created<T: Resource>(plan: &Plan<Option<Why>>) -> impl Iterator<Item = &str> {
    let is_one = |write: &&Write<_>| write.verb() == Verb::Create && write.resource.kind == T::TYPE.kind;
    plan.writes().into_iter().filter(is_one).map(|write| write.key.name.as_str())
}

/// The ordinals of the pods that a plan creates.
pub fn created_pods(plan: &Plan<Option<Why>>) -> Vec<i32> {
    created::<Pod>(plan).filter_map(|name| identity::parent_and_ordinal(name)?.1).collect()
}

/// The pods that a plan deletes.
pub fn deleted_pods<'a>(view: &View<'a>, plan: &Plan<Option<Why>>) -> Vec<(&'a Pod, Why)> {
    let deleted = |write: &Write<Option<Why>>| {
        let pod = view.pods.iter().find(|pod| pod.metadata.key() == write.key)?;
        Some((&**pod, write.tag?))
    };
    plan.writes().into_iter().filter_map(deleted).collect()
}

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan<Option<Why>>) -> Result<(), String> {
    let (roster, writes) = (Roster::of(view), plan.writes());
    let (created, deleted) = (created_pods(plan), deleted_pods(view, plan));
    let claims: Vec<_> = self::created::<PersistentVolumeClaim>(plan).collect();
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
            identity::revision(pod) != view.update() && !pod.metadata.is_deleting() && !pod.is_finished();
        is_old && outdated.iter().min().is_some_and(|lowest| ordinal > lowest) && !outdated.contains(ordinal)
    };
    let rules = [
        ("a set that is being deleted is left alone", !view.set.metadata.is_deleting() || writes.is_empty()),
        (
            "only pods of the set are deleted",
            writes.iter().filter(|write| write.verb() == Verb::Delete).count() == deleted.len(),
        ),
        ("only missing claims are created", claims.iter().all(|name| !view.claims.contains_key(*name))),
        (
            "only missing wanted ordinals are created",
            created
                .iter()
                .all(|ordinal| view.ordinals().contains(ordinal) && !roster.replicas.contains_key(ordinal)),
        ),
        ("an ordered set creates one pod at a time", !ordered || created.len() <= 1),
        (
            "an ordered set creates a pod only when all before it are available",
            !ordered || created.iter().all(|new| first_not_available.is_none_or(|first| first >= *new)),
        ),
        (
            "an ordered set deletes one pod at a time",
            !ordered || view.obeys_max_unavailable || deleted.len() <= 1,
        ),
        ("pods are created from the first", created.is_sorted()),
        ("pods are scaled away from the last", is_descending(&scaled_down)),
        (
            "an ordered set scales its last pod away",
            !ordered || scaled_down.iter().all(|gone| roster.condemned.keys().next_back() == Some(gone)),
        ),
        ("pods are updated from the last", is_descending(&outdated)),
        ("no old pod is passed over", !roster.replicas.iter().any(is_passed_over)),
        ("at most a burst", created.len() <= BURST),
        (
            "no pod that is being deleted is deleted again",
            deleted.iter().all(|(pod, _)| !pod.metadata.is_deleting()),
        ),
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
            updated.clone().all(|(pod, _)| identity::revision(pod) != view.update()),
        ),
        (
            // Upstream: for a parallel set without the gate only the pods above the updated one count.
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
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: planned {plan}")))
}
