//! Which of the nodes that will do is best: empty rather than full, evenly used, liked by the pod, without its
//! siblings.

use flyball_api::Quantity;

use super::affinity::Relations;
use super::spread::Spread;
use super::world::{Seat, World};
use super::{filter, requests};
use crate::objects::Pod;

/// Scores of each rule go up to this, as upstream's.
const FULL: i64 = 100;

/// The best of the nodes. Among equals the one with fewer pods, then the first by name.
pub(super) fn best<'a>(pod: &Pod, world: &World, fitting: &[&'a Seat]) -> Option<&'a Seat> {
    if let [only] = fitting {
        return Some(only);
    }
    let relations = Relations::new(pod, world);
    let wishes = relations.wishes(world);
    let liked = fitting.iter().map(|seat| {
        let domains = wishes.iter().filter(|((key, value), _)| seat.label(key) == Some(value.as_str()));
        domains.map(|(_, weight)| *weight).sum()
    });
    let spread = Spread::new(pod, world);
    let rules: [(i64, Vec<i64>); 6] = [
        (1, fitting.iter().map(|seat| room_left(pod, seat)).collect()),
        (
            3,
            normalize(fitting.iter().map(|seat| as_number(filter::disliked(pod, seat))), Order::LessIsBetter),
        ),
        (2, normalize(fitting.iter().map(|seat| preferred(pod, seat)), Order::MoreIsBetter)),
        (2, normalize(liked, Order::MoreIsBetter)),
        (2, normalize(fitting.iter().map(|seat| spread.crowding(seat)), Order::LessIsBetter)),
        (2, normalize(fitting.iter().map(|seat| siblings(pod, seat)), Order::LessIsBetter)),
    ];
    let total = |n: usize| -> i64 {
        rules.iter().map(|(weight, scores)| weight * scores.get(n).copied().unwrap_or(0)).sum()
    };
    let ranked = fitting.iter().enumerate();
    ranked
        .min_by_key(|(n, seat)| (std::cmp::Reverse(total(*n)), seat.pods.len(), seat.name().clone()))
        .map(|(_, seat)| *seat)
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    MoreIsBetter,
    LessIsBetter,
}

/// Brings numbers of any size to 0..=100.
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

/// The free part of processor and memory with the pod there, less what is out of balance between the two.
fn room_left(pod: &Pod, seat: &Seat) -> i64 {
    let wanted = requests::of(pod);
    let free = |name: &str| {
        let has = seat.node.status.allocatable.get(name).unwrap_or(Quantity::ZERO).to_f64();
        let used = seat.used.get(name).unwrap_or(Quantity::ZERO) + wanted.get(name).unwrap_or(Quantity::ZERO);
        if has <= 0.0 { 0.0 } else { (1.0 - used.to_f64() / has).clamp(0.0, 1.0) }
    };
    let (cpu, memory) = (free("cpu"), free("memory"));
    let score = (cpu + memory) / 2.0 - (cpu - memory).abs() / 2.0;
    // Between -50 and 100 by construction.
    (score * FULL as f64) as i64
}

fn preferred(pod: &Pod, seat: &Seat) -> i64 {
    let affinity = pod.spec.affinity.node_affinity.iter();
    let wishes = affinity.flat_map(|affinity| &affinity.preferred);
    wishes
        .filter(|wish| wish.preference.matches(&seat.node.metadata.name, &seat.node.metadata.labels))
        .map(|wish| wish.weight)
        .sum()
}

/// Pods of the same controller, which should not all be lost with one node.
fn siblings(pod: &Pod, seat: &Seat) -> i64 {
    let Some(owner) = pod.metadata.controller() else { return 0 };
    let same = seat.pods.iter().filter(|other| other.metadata.is_controlled_by(&owner.uid));
    as_number(same.count())
}
