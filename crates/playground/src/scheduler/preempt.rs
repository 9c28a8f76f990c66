//! Pushing pods of lower priority aside for one that fits nowhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::selector::Selector;
use smol_str::SmolStr;

use super::filter::{Filters, Refusal};
use super::world::{Seat, World};
use crate::objects::Pod;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Pods that go so that another can come.
#[derive(Debug, Clone)]
pub struct Preemption {
    pub node: SmolStr,
    pub victims: Vec<Arc<Pod>>,
}

/// A way to make room, and what it costs.
struct Candidate {
    node: SmolStr,
    victims: Vec<Arc<Pod>>,
    violations: usize,
}

impl Candidate {
    /// Fewer broken budgets, less important victims, fewer of them.
    fn cost(&self) -> (usize, i32, i64, usize, SmolStr) {
        let priorities = || self.victims.iter().map(|pod| pod.priority());
        // Moved up so that each victim adds to the sum, whatever the sign of its priority.
        let sum = priorities().map(|p| i64::from(p) + i64::from(i32::MAX) + 1).sum();
        let highest = priorities().max().unwrap_or(i32::MIN);
        (self.violations, highest, sum, self.victims.len(), self.node.clone())
    }
}

/// The cheapest way to make room for a pod, or the words that say why there is none.
pub(super) fn preempt(
    pod: &Pod,
    world: &World,
    refusals: &BTreeMap<SmolStr, Refusal>,
) -> Result<Preemption, String> {
    if pod.spec.preemption_policy == "Never" {
        return Err("preemption: not eligible due to preemptionPolicy=Never.".to_owned());
    }
    let nominated = world.nodes.iter().find(|seat| *seat.name() == pod.status.nominated_node_name);
    let is_leaving = |other: &Arc<Pod>| other.metadata.is_deleting() && other.priority() < pod.priority();
    if nominated.is_some_and(|seat| seat.pods.iter().any(is_leaving)) {
        return Err("preemption: not eligible due to a terminating pod on the nominated node.".to_owned());
    }
    let mut counts = BTreeMap::new();
    let mut candidates = Vec::new();
    for seat in &world.nodes {
        let helpful = refusals.get(seat.name()).is_some_and(|refusal| refusal.resolvable);
        match helpful.then(|| candidate(pod, world, seat)) {
            Some(Some(candidate)) => candidates.push(candidate),
            Some(None) => *counts.entry(NO_VICTIMS).or_insert(0) += 1,
            None => *counts.entry(NOT_HELPFUL).or_insert(0) += 1,
        }
    }
    match candidates.into_iter().min_by_key(Candidate::cost) {
        Some(Candidate { node, victims, .. }) => Ok(Preemption { node, victims }),
        None => Err(format!("preemption: {}", super::decide::summary(world.nodes.len(), &counts))),
    }
}

/// Who would have to go from this node: all that are less important, but for those that can stay after all.
fn candidate(pod: &Pod, world: &World, seat: &Seat) -> Option<Candidate> {
    let is_lower = |other: &Pod| other.priority() < pod.priority();
    let mut world = world.clone();
    let place = world.nodes.iter().position(|other| other.name() == seat.name())?;
    let mut lower: Vec<Arc<Pod>> = seat.pods.iter().filter(|other| is_lower(other)).cloned().collect();
    if lower.is_empty() {
        return None;
    }
    world.nodes[place] = seat.with(|other| !is_lower(other));
    if Filters::new(pod, &world).check(&world.nodes[place]).is_err() {
        return None;
    }
    // Those under a budget, then the most important and the oldest, are the first to be spared.
    lower.sort_by_key(|other| {
        let guarded = budgets_of(other, &world).next().is_some();
        (
            !guarded,
            std::cmp::Reverse(other.priority()),
            other.metadata.creation_timestamp,
            other.metadata.key(),
        )
    });
    let mut victims = Vec::new();
    for other in lower {
        let mut with = world.clone();
        with.nodes[place].add(Arc::clone(&other));
        match Filters::new(pod, &with).check(&with.nodes[place]) {
            Ok(()) => world = with,
            Err(_) => victims.push(other),
        }
    }
    let violations = victims.iter().filter(|victim| budgets_of(victim, &world).any(|left| left <= 0)).count();
    Some(Candidate { node: seat.name().clone(), victims, violations })
}

/// How many disruptions each budget over a pod still allows.
fn budgets_of<'a>(pod: &'a Pod, world: &'a World) -> impl Iterator<Item = i32> + 'a {
    world.budgets.iter().filter_map(move |budget| {
        let matches = budget.metadata.namespace == pod.metadata.namespace
            && Selector::from_object(budget.spec.selector.as_ref())
                .is_ok_and(|selector| selector.matches(&pod.metadata.labels));
        matches.then_some(budget.status.disruptions_allowed)
    })
}
