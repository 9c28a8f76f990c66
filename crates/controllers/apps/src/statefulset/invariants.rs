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

type Rules = Vec<(&'static str, bool)>;

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan<Option<Why>>) -> Result<(), String> {
    let facts = Facts::of(view, plan);
    let rules = [facts.scope(plan), facts.creations(plan), facts.scale_down(), facts.updates()].concat();
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: planned {plan}")))
}

/// What the rules are about.
struct Facts<'a, 'v> {
    view: &'a View<'v>,
    roster: Roster<'v>,
    created: Vec<i32>,
    deleted: Vec<(&'v Pod, Why)>,
    is_ordered: bool,
    first_not_available: Option<i32>,
}

impl<'a, 'v> Facts<'a, 'v> {
    fn of(view: &'a View<'v>, plan: &Plan<Option<Why>>) -> Self {
        let roster = Roster::of(view);
        let is_missing =
            |ordinal: &i32| roster.replicas.get(ordinal).is_none_or(|pod| view.is_unavailable(pod));
        let first_not_available = view.ordinals().find(is_missing);
        let (created, deleted) = (created_pods(plan), deleted_pods(view, plan));
        Self { is_ordered: view.is_ordered(), view, roster, created, deleted, first_not_available }
    }

    /// The ordinals of the pods that are deleted for this reason.
    fn numbers(&self, wanted: Why) -> Vec<i32> {
        let chosen = self.deleted.iter().filter(|(_, why)| *why == wanted);
        chosen.filter_map(|(pod, _)| identity::ordinal(pod)).collect()
    }

    fn is_wanted(&self, pod: &Pod) -> bool {
        identity::ordinal(pod).is_some_and(|ordinal| self.view.ordinals().contains(&ordinal))
    }

    /// Which objects a plan may write.
    fn scope(&self, plan: &Plan<Option<Why>>) -> Rules {
        let (writes, deleted) = (plan.writes(), &self.deleted);
        vec![
            (
                "a set that is being deleted is left alone",
                !self.view.set.metadata.is_deleting() || writes.is_empty(),
            ),
            (
                "only pods of the set are deleted",
                writes.iter().filter(|write| write.verb() == Verb::Delete).count() == deleted.len(),
            ),
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
                "a ready pod is never called stuck",
                deleted.iter().all(|(pod, why)| *why != Why::Stuck || !self.view.is_available(pod)),
            ),
        ]
    }

    fn creations(&self, plan: &Plan<Option<Why>>) -> Rules {
        let Self { view, created, is_ordered, .. } = self;
        let is_absent = |ordinal: &i32| !self.roster.replicas.contains_key(ordinal);
        let first = self.first_not_available;
        vec![
            (
                "only missing claims are created",
                self::created::<PersistentVolumeClaim>(plan).all(|name| !view.claims.contains_key(name)),
            ),
            (
                "only missing wanted ordinals are created",
                created.iter().all(|ordinal| view.ordinals().contains(ordinal) && is_absent(ordinal)),
            ),
            ("an ordered set creates one pod at a time", !is_ordered || created.len() <= 1),
            (
                "an ordered set creates a pod only when all before it are available",
                !is_ordered || created.iter().all(|new| first.is_none_or(|first| first >= *new)),
            ),
            ("pods are created from the first", created.is_sorted()),
            ("at most a burst", created.len() <= BURST),
        ]
    }

    fn scale_down(&self) -> Rules {
        let Self { view, deleted, is_ordered, .. } = self;
        let scaled_down = self.numbers(Why::ScaledDown);
        vec![
            (
                "an ordered set deletes one pod at a time",
                !is_ordered || view.obeys_max_unavailable || deleted.len() <= 1,
            ),
            ("pods are scaled away from the last", is_descending(&scaled_down)),
            (
                "an ordered set scales its last pod away",
                !is_ordered
                    || scaled_down.iter().all(|gone| self.roster.condemned.keys().next_back() == Some(gone)),
            ),
            (
                "only unwanted ordinals are scaled away",
                deleted.iter().all(|(pod, why)| (*why == Why::ScaledDown) != self.is_wanted(pod)),
            ),
            (
                "an ordered set scales down only while all it wants are available",
                !is_ordered
                    || self.first_not_available.is_none()
                    || deleted.iter().all(|(_, why)| *why != Why::ScaledDown),
            ),
        ]
    }

    fn updates(&self) -> Rules {
        let view = self.view;
        let outdated = self.numbers(Why::Outdated);
        let updated = self.deleted.iter().filter(|(_, why)| *why == Why::Outdated);
        let is_passed_over = |(ordinal, pod): (&i32, &&Pod)| {
            let is_old =
                identity::revision(pod) != view.update() && !pod.metadata.is_deleting() && !pod.is_finished();
            is_old
                && outdated.iter().min().is_some_and(|lowest| ordinal > lowest)
                && !outdated.contains(ordinal)
        };
        let serves =
            |ordinal: i32| self.roster.replicas.get(&ordinal).is_some_and(|pod| !view.is_unavailable(pod));
        let all_above_serve = |ordinal: &i32| (ordinal + 1..view.ordinals().end).all(serves);
        vec![
            ("pods are updated from the last", is_descending(&outdated)),
            ("no old pod is passed over", !self.roster.replicas.iter().any(is_passed_over)),
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
            ("updating leaves enough pods in service", self.leaves_enough()),
            (
                "without the gate one pod is updated at a time, and all above it serve",
                view.obeys_max_unavailable || updated.count() <= 1 && outdated.iter().all(all_above_serve),
            ),
        ]
    }

    /// Upstream: for a parallel set without the gate only the pods above the updated one count.
    fn leaves_enough(&self) -> bool {
        let view = self.view;
        let taken = self.deleted.iter().filter(|(_, why)| *why == Why::Outdated);
        let taken = taken.filter(|(pod, _)| !view.is_unavailable(pod)).count();
        let available = self.roster.replicas.values().filter(|pod| !view.is_unavailable(pod)).count();
        let least = i64::from(view.wanted()) - view.max_unavailable().unwrap_or(1);
        taken == 0
            || (!self.is_ordered && !view.obeys_max_unavailable)
            || i64::try_from(available - taken).unwrap_or(0) >= least
    }
}

fn is_descending(numbers: &[i32]) -> bool {
    numbers.is_sorted_by(|one, next| one > next)
}
