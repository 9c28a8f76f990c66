//! Preemption: evicts pods of lower priority for one that fits on no node.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::selector::Selector;
use smol_str::SmolStr;

use super::filter::{Filters, Refusal};
use super::snapshot::{NodeInfo, Snapshot};
use crate::objects::Pod;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// The pods to evict, and from which node.
#[derive(Debug, Clone)]
pub struct Preemption {
    pub node: SmolStr,
    pub victims: Vec<Arc<Pod>>,
}

/// The victims on one node, and their cost.
struct Candidate {
    node: SmolStr,
    victims: Vec<Arc<Pod>>,
    violations: usize,
}

impl Candidate {
    /// Fewer violated budgets, lower priorities, fewer victims.
    fn cost(&self) -> (usize, i32, i64, usize, SmolStr) {
        let priorities = || self.victims.iter().map(|pod| pod.priority());
        // Shifted so that each victim adds to the sum, whatever the sign of its priority.
        let sum = priorities().map(|p| i64::from(p) + i64::from(i32::MAX) + 1).sum();
        let highest = priorities().max().unwrap_or(i32::MIN);
        (self.violations, highest, sum, self.victims.len(), self.node.clone())
    }
}

/// The cheapest preemption for a pod, or the message that says why there is none.
pub(super) fn preempt(
    pod: &Pod,
    snapshot: &Snapshot,
    refusals: &BTreeMap<SmolStr, Refusal>,
) -> Result<Preemption, String> {
    if pod.spec.preemption_policy == "Never" {
        return Err("preemption: not eligible due to preemptionPolicy=Never.".to_owned());
    }
    let nominated = snapshot.nodes.iter().find(|info| *info.name() == pod.status.nominated_node_name);
    let is_leaving = |other: &Arc<Pod>| other.metadata.is_deleting() && other.priority() < pod.priority();
    if nominated.is_some_and(|info| info.pods.iter().any(is_leaving)) {
        return Err("preemption: not eligible due to a terminating pod on the nominated node.".to_owned());
    }
    let mut counts = BTreeMap::new();
    let mut candidates = Vec::new();
    for info in &snapshot.nodes {
        let helpful = refusals.get(info.name()).is_some_and(|refusal| refusal.resolvable);
        match helpful.then(|| candidate(pod, snapshot, info)) {
            Some(Some(candidate)) => candidates.push(candidate),
            Some(None) => *counts.entry(NO_VICTIMS).or_insert(0) += 1,
            None => *counts.entry(NOT_HELPFUL).or_insert(0) += 1,
        }
    }
    match candidates.into_iter().min_by_key(Candidate::cost) {
        Some(Candidate { node, victims, .. }) => Ok(Preemption { node, victims }),
        None => Err(format!("preemption: {}", super::decide::summary(snapshot.nodes.len(), &counts))),
    }
}

/// The victims on this node: all pods of lower priority, except those that can stay.
fn candidate(pod: &Pod, snapshot: &Snapshot, info: &NodeInfo) -> Option<Candidate> {
    let is_lower = |other: &Pod| other.priority() < pod.priority();
    let mut snapshot = snapshot.clone();
    let place = snapshot.nodes.iter().position(|other| other.name() == info.name())?;
    let mut lower: Vec<Arc<Pod>> = info.pods.iter().filter(|other| is_lower(other)).cloned().collect();
    if lower.is_empty() {
        return None;
    }
    snapshot.nodes[place] = info.with(|other| !is_lower(other));
    if Filters::new(pod, &snapshot).check(&snapshot.nodes[place]).is_err() {
        return None;
    }
    // Pods under a budget, then those of higher priority and the older ones, are reprieved first.
    lower.sort_by_key(|other| {
        let guarded = budgets_of(other, &snapshot).next().is_some();
        (
            !guarded,
            std::cmp::Reverse(other.priority()),
            other.metadata.creation_timestamp,
            other.metadata.key(),
        )
    });
    let mut victims = Vec::new();
    for other in lower {
        let mut with = snapshot.clone();
        with.nodes[place].add(Arc::clone(&other));
        match Filters::new(pod, &with).check(&with.nodes[place]) {
            Ok(()) => snapshot = with,
            Err(_) => victims.push(other),
        }
    }
    let violations =
        victims.iter().filter(|victim| budgets_of(victim, &snapshot).any(|left| left <= 0)).count();
    Some(Candidate { node: info.name().clone(), victims, violations })
}

/// How many disruptions each budget of a pod still allows.
fn budgets_of<'a>(pod: &'a Pod, snapshot: &'a Snapshot) -> impl Iterator<Item = i32> + 'a {
    snapshot.budgets.iter().filter_map(move |budget| {
        let matches = budget.metadata.namespace == pod.metadata.namespace
            && Selector::from_object(budget.spec.selector.as_ref())
                .is_ok_and(|selector| selector.matches(&pod.metadata.labels));
        matches.then_some(budget.status.disruptions_allowed)
    })
}
