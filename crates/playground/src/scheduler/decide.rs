//! Where a pod goes.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::filter::{Filters, Refusal};
use super::preempt::{Preemption, preempt};
use super::score::best;
use super::volumes::Preparation;
use super::world::{Seat, World};
use crate::objects::Pod;

/// What the scheduler has found out.
#[derive(Debug, Clone)]
pub enum Verdict {
    Bind {
        node: SmolStr,
        /// How many nodes would have done.
        fitting: usize,
    },
    /// The pod goes there once its volumes are bound; these writes are still to be made.
    Prepare {
        node: SmolStr,
        /// What is to be written; empty if all that is left is to wait.
        preparations: Vec<Preparation>,
    },
    Unschedulable {
        message: String,
        /// How room could be made.
        preemption: Option<Preemption>,
    },
}

/// Decides where a pod goes.
pub fn decide(pod: &Pod, world: &World) -> Verdict {
    let unschedulable = |message: String| Verdict::Unschedulable { message, preemption: None };
    if world.nodes.is_empty() {
        return unschedulable("no nodes available to schedule pods".to_owned());
    }
    let all = world.nodes.len();
    if let Some(obstacle) = world.volumes.obstacle(pod) {
        // Upstream: the plugin that would look for claims to deallocate misses what an earlier step has not written.
        return unschedulable(format!("0/{all} nodes are available: {obstacle}. not found"));
    }
    let filters = Filters::new(pod, world);
    let mut fitting: Vec<&Seat> = Vec::new();
    let mut refusals: BTreeMap<SmolStr, Refusal> = BTreeMap::new();
    for seat in &world.nodes {
        match filters.check(seat) {
            Ok(()) => fitting.push(seat),
            Err(refusal) => {
                refusals.insert(seat.name().clone(), refusal);
            }
        }
    }
    // Room was made for it there.
    let nominated = fitting.iter().find(|seat| *seat.name() == pod.status.nominated_node_name).copied();
    let Some(seat) = nominated.or_else(|| best(pod, world, &fitting)) else {
        return nowhere(pod, world, &refusals);
    };
    let node = seat.name().clone();
    match world.volumes.preparations(pod, seat) {
        Some(none) if none.is_empty() => Verdict::Bind { node, fitting: fitting.len() },
        preparations => Verdict::Prepare { node, preparations: preparations.unwrap_or_default() },
    }
}

fn nowhere(pod: &Pod, world: &World, refusals: &BTreeMap<SmolStr, Refusal>) -> Verdict {
    let mut counts = BTreeMap::new();
    for reason in refusals.values().flat_map(|refusal| &refusal.reasons) {
        *counts.entry(reason.as_str()).or_insert(0) += 1;
    }
    let message = summary(world.nodes.len(), &counts);
    match preempt(pod, world, refusals) {
        Ok(preemption) => Verdict::Unschedulable { message, preemption: Some(preemption) },
        // Upstream: pkg/scheduler/framework/plugins/dynamicresources: says so of pods without claims, too.
        Err(why) => {
            let message = format!("{message} no new claims to deallocate, {why}");
            Verdict::Unschedulable { message, preemption: None }
        }
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).`
// Upstream: pkg/scheduler/framework/types.go, FitError.Error: sorted as text, count first.
pub(super) fn summary(nodes: usize, counts: &BTreeMap<&str, usize>) -> String {
    let mut reasons: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort();
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
}
