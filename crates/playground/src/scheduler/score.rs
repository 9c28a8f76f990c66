//! Scores feasible nodes: least and evenly allocated, preferred by the pod, without pods of the same controller.

use flyball_api::Quantity;

use super::affinity::Relations;
use super::snapshot::{NodeInfo, Snapshot};
use super::spread::Spread;
use super::{filter, requests};
use crate::objects::Pod;

/// The highest score of each rule, as upstream's.
const FULL: i64 = 100;

/// The best node; on a tie the one with fewer pods, then the first by name.
pub(super) fn best<'a>(pod: &Pod, snapshot: &Snapshot, fitting: &[&'a NodeInfo]) -> Option<&'a NodeInfo> {
    if let [only] = fitting {
        return Some(only);
    }
    let relations = Relations::new(pod, snapshot);
    let preferences = relations.preferences(snapshot);
    let liked = fitting.iter().map(|info| {
        let domains = preferences.iter().filter(|((key, value), _)| info.label(key) == Some(value.as_str()));
        domains.map(|(_, weight)| *weight).sum()
    });
    let spread = Spread::new(pod, snapshot);
    let rules: [(i64, Vec<i64>); 6] = [
        (1, fitting.iter().map(|info| room_left(pod, info)).collect()),
        (
            3,
            normalize(
                fitting.iter().map(|info| as_number(filter::untolerated_preferences(pod, info))),
                Order::LessIsBetter,
            ),
        ),
        (2, normalize(fitting.iter().map(|info| preferred(pod, info)), Order::MoreIsBetter)),
        (2, normalize(liked, Order::MoreIsBetter)),
        (2, normalize(fitting.iter().map(|info| spread.crowding(info)), Order::LessIsBetter)),
        (2, normalize(fitting.iter().map(|info| siblings(pod, info)), Order::LessIsBetter)),
    ];
    let total = |n: usize| -> i64 {
        rules.iter().map(|(weight, scores)| weight * scores.get(n).copied().unwrap_or(0)).sum()
    };
    let ranked = fitting.iter().enumerate();
    ranked
        .min_by_key(|(n, info)| (std::cmp::Reverse(total(*n)), info.pods.len(), info.name().clone()))
        .map(|(_, info)| *info)
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    MoreIsBetter,
    LessIsBetter,
}

/// Scales numbers of any size to 0..=100.
fn normalize(values: impl Iterator<Item = i64>, order: Order) -> Vec<i64> {
    let values: Vec<i64> = values.collect();
    let (low, high) = (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
    let range = high.saturating_sub(low);
    let share = |value: i64| match range {
        0 => 0,
        _ => value.saturating_sub(low).saturating_mul(FULL) / range,
    };
    values
        .into_iter()
        .map(|value| if order == Order::MoreIsBetter { share(value) } else { FULL - share(value) })
        .collect()
}

fn as_number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The free fraction of CPU and memory with the pod on the node, less the imbalance between the two.
fn room_left(pod: &Pod, info: &NodeInfo) -> i64 {
    let wanted = requests::of(pod);
    let free = |name: &str| {
        let has = info.node.status.allocatable.get(name).unwrap_or(Quantity::ZERO).to_f64();
        let used = info.used.get(name).unwrap_or(Quantity::ZERO) + wanted.get(name).unwrap_or(Quantity::ZERO);
        if has <= 0.0 { 0.0 } else { (1.0 - used.to_f64() / has).clamp(0.0, 1.0) }
    };
    let (cpu, memory) = (free("cpu"), free("memory"));
    let score = (cpu + memory) / 2.0 - (cpu - memory).abs() / 2.0;
    // Between -50 and 100 by construction.
    (score * FULL as f64) as i64
}

fn preferred(pod: &Pod, info: &NodeInfo) -> i64 {
    let affinity = pod.spec.affinity.node_affinity.iter();
    let preferences = affinity.flat_map(|affinity| &affinity.preferred);
    preferences
        .filter(|wish| wish.preference.matches(&info.node.metadata.name, &info.node.metadata.labels))
        .map(|wish| wish.weight)
        .sum()
}

/// How many pods of the same controller the node has.
fn siblings(pod: &Pod, info: &NodeInfo) -> i64 {
    let Some(owner) = pod.metadata.controller() else { return 0 };
    let same = info.pods.iter().filter(|other| other.metadata.is_controlled_by(&owner.uid));
    as_number(same.count())
}
