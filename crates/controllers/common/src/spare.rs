//! Which pods are deleted first when there are too many. The order is API: users rely on it.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use flyball_api::Timestamp;
use flyball_api::pod::{ContainerStatus, Phase, Pod};
use rustc_hash::FxHashMap;

/// The annotation with the cost of deleting a pod, compared to others.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

impl fmt::Display for Usefulness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = ["pending", "in an unknown phase", "running"][usize::from(self.phase.min(2))];
        f.write_str(if self.assigned { phase } else { "not on a node" })?;
        f.write_str(if self.ready.is_some() { ", ready" } else { ", not ready" })?;
        if self.deletion_cost != 0 {
            write!(f, ", deletion cost {}", self.deletion_cost)?;
        }
        if self.neighbours > 1 {
            write!(f, ", one of {} on its node", self.neighbours)?;
        }
        match self.restarts.0 {
            0 => Ok(()),
            count => write!(f, ", restarted {count} times"),
        }
    }
}

/// What deleting a pod would cost; the value says why it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usefulness<'a> {
    /// Whether it is on a node.
    pub assigned: bool,
    /// Pending, then unknown, then running.
    pub phase: u8,
    /// Since when it is ready, if it is; the time may be missing.
    pub ready: Option<Option<Timestamp>>,
    /// The annotation `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
    /// Related pods on its node.
    pub neighbours: usize,
    /// Most restarts of a container, and of a sidecar.
    pub restarts: (i32, i32),
    pub created: Option<Timestamp>,
    /// Breaks ties between pods of about the same age, so that no node or zone is preferred by accident.
    pub uid: &'a flyball_api::Uid,
}

impl<'a> Usefulness<'a> {
    /// `neighbours`: how many related pods are on its node.
    pub fn of(pod: &'a Pod, neighbours: usize) -> Self {
        Self {
            assigned: !pod.spec.node_name.is_empty(),
            phase: match pod.status.phase {
                Phase::Pending => 0,
                Phase::Running => 2,
                _ => 1,
            },
            ready: pod.is_ready().then(|| pod.ready_since()),
            deletion_cost: deletion_cost(pod),
            neighbours,
            restarts: most_restarts(pod),
            created: pod.metadata.creation_timestamp,
            uid: &pod.metadata.uid,
        }
    }

    /// The criteria that come before age and restarts, and the magnitude of the time for which both are ready. `Less` is
    /// deleted first.
    fn cmp_first(&self, other: &Self, now: Timestamp) -> Ordering {
        self.assigned
            .cmp(&other.assigned)
            .then(self.phase.cmp(&other.phase))
            .then(self.ready.is_some().cmp(&other.ready.is_some()))
            .then(self.deletion_cost.cmp(&other.deletion_cost))
            .then(other.neighbours.cmp(&self.neighbours))
            .then_with(|| match (self.ready, other.ready) {
                (Some(one), Some(two)) => magnitude(one, now).cmp(&magnitude(two, now)),
                _ => Ordering::Equal,
            })
    }

    /// The order of pods that are ready since the same time, or not ready.
    fn cmp_rest(&self, other: &Self, now: Timestamp) -> Ordering {
        other
            .restarts
            .cmp(&self.restarts)
            .then_with(|| magnitude(self.created, now).cmp(&magnitude(other.created, now)))
            .then_with(|| self.cmp_uid(other))
    }

    fn cmp_uid(&self, other: &Self) -> Ordering {
        self.uid.to_smol_str().cmp(&other.uid.to_smol_str())
    }

    /// The order for the pods of a Job: the annotation and related pods do not count, and the younger is deleted first.
    pub fn cmp_plainly(&self, other: &Self) -> Ordering {
        // A missing time sorts before all others.
        let younger = |one: Option<Timestamp>, two: Option<Timestamp>| match (one, two) {
            (Some(one), Some(two)) => two.cmp(&one),
            _ => one.is_some().cmp(&two.is_some()),
        };
        self.assigned
            .cmp(&other.assigned)
            .then(self.phase.cmp(&other.phase))
            .then(self.ready.is_some().cmp(&other.ready.is_some()))
            .then_with(|| younger(self.ready.flatten(), other.ready.flatten()))
            .then(other.restarts.cmp(&self.restarts))
            .then_with(|| younger(self.created, other.created))
    }
}

/// The logarithm of an age in nanoseconds; negative for the future, `None` if the age is not known. The younger is deleted
/// first, but ages of one magnitude count as equal: otherwise the pods of one late rollout, often all in one zone, would
/// be deleted first.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> Option<i32> {
    match now.duration_since(since?).as_nanos() {
        age if age > 0 => Some(age.ilog2() as i32),
        _ => Some(-1),
    }
}

/// The most restarts of any container, and of any sidecar.
fn most_restarts(pod: &Pod) -> (i32, i32) {
    let sidecars: Vec<_> =
        pod.spec.init_containers.iter().filter(|container| container.is_sidecar()).collect();
    let is_sidecar =
        |status: &&ContainerStatus| sidecars.iter().any(|container| container.name == status.name);
    let most = |count: Option<i32>| count.unwrap_or(0);
    let containers = pod.status.container_statuses.iter().map(|status| status.restart_count);
    let beside =
        pod.status.init_container_statuses.iter().filter(is_sidecar).map(|status| status.restart_count);
    (most(containers.max()), most(beside.max()))
}

/// The cost from the annotation; zero if it is missing or is not a number.
fn deletion_cost(pod: &Pod) -> i32 {
    let text = pod.metadata.annotations.get(DELETION_COST).unwrap_or("0");
    // Upstream: pkg/apis/core/helper, validFirstDigit: a leading plus sign or zero is refused, but not after a minus sign.
    let canonical =
        text == "0" || text.starts_with(|first: char| ('1'..='9').contains(&first) || first == '-');
    if canonical { text.parse().unwrap_or(0) } else { 0 }
}

/// The `count` pods of `pods` to delete first. `family` are the related pods, these included; of several on one node some
/// are deleted before others. Empty if that does not matter. `has_costs`: whether the annotation counts.
pub fn least_useful<'a>(
    pods: &'a [Arc<Pod>],
    family: &[Arc<Pod>],
    count: usize,
    has_costs: bool,
    now: Timestamp,
) -> Vec<(&'a Pod, Usefulness<'a>)> {
    let mut on_node = FxHashMap::<&str, usize>::default();
    for pod in family.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(&pod.spec.node_name).or_default() += 1;
    }
    let neighbours = |pod: &Pod| on_node.get(pod.spec.node_name.as_str()).copied().unwrap_or(0);
    let rank = |pod: &'a Arc<Pod>| {
        let usefulness = Usefulness::of(pod, neighbours(pod));
        let deletion_cost = if has_costs { usefulness.deletion_cost } else { 0 };
        (&**pod, Usefulness { deletion_cost, ..usefulness })
    };
    let mut ranked: Vec<_> = pods.iter().map(rank).collect();
    if count < ranked.len() {
        sort(&mut ranked, now);
        ranked.truncate(count);
    }
    ranked
}

/// Sorts pods so that the first is deleted first.
///
/// Of two pods that are ready for different times of one magnitude, the one with the smaller uid is deleted first; of two
/// that are ready since the same time, the one with more restarts, then the younger one.
///
/// Upstream: controller_utils.go, ActivePodsWithRanks: compares pairs by these rules, which can contradict each other
/// for three pods; the result then depends on the order in which the cache returns them. Here all pods of a magnitude are sorted by
/// uid, and those that are ready since the same time then trade places. Without a contradiction the result is the same.
fn sort(ranked: &mut [(&Pod, Usefulness<'_>)], now: Timestamp) {
    ranked.sort_by(|(_, one), (_, two)| one.cmp_first(two, now).then_with(|| one.cmp_uid(two)));
    for group in ranked.chunk_by_mut(|(_, one), (_, two)| one.cmp_first(two, now).is_eq()) {
        let mut places = FxHashMap::<_, Vec<usize>>::default();
        for (place, (_, of)) in group.iter().enumerate() {
            places.entry(of.ready).or_default().push(place);
        }
        for places in places.into_values() {
            let mut pods: Vec<_> = places.iter().map(|&place| group[place]).collect();
            pods.sort_by(|(_, one), (_, two)| one.cmp_rest(two, now));
            places.into_iter().zip(pods).for_each(|(place, pod)| group[place] = pod);
        }
    }
}
