//! Chooses a node for a pod.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::filter::{Filters, Refusal};
use super::preempt::{Preemption, preempt};
use super::score::best;
use super::snapshot::{NodeInfo, Snapshot};
use super::volumes::Preparation;
use crate::objects::Pod;

/// The result for one pod.
#[derive(Debug, Clone)]
pub enum ScheduleResult {
    Bind {
        node: SmolStr,
        /// How many nodes were feasible.
        fitting: usize,
    },
    /// The node is chosen, but volumes are not bound yet; these writes are still to be made.
    Prepare {
        node: SmolStr,
        /// The writes; empty if only binding has to be waited for.
        preparations: Vec<Preparation>,
    },
    Unschedulable {
        message: String,
        /// The pods to preempt, if that helps.
        preemption: Option<Preemption>,
    },
}

/// Chooses a node for a pod.
pub fn decide(pod: &Pod, snapshot: &Snapshot) -> ScheduleResult {
    let unschedulable = |message: String| ScheduleResult::Unschedulable { message, preemption: None };
    if snapshot.nodes.is_empty() {
        return unschedulable("no nodes available to schedule pods".to_owned());
    }
    let all = snapshot.nodes.len();
    if let Some(obstacle) = snapshot.volumes.obstacle(pod) {
        // Upstream: the plugin that would look for claims to deallocate misses what an earlier step has not written.
        return unschedulable(format!("0/{all} nodes are available: {obstacle}. not found"));
    }
    let filters = Filters::new(pod, snapshot);
    let mut fitting: Vec<&NodeInfo> = Vec::new();
    let mut refusals: BTreeMap<SmolStr, Refusal> = BTreeMap::new();
    for info in &snapshot.nodes {
        match filters.check(info) {
            Ok(()) => fitting.push(info),
            Err(refusal) => {
                refusals.insert(info.name().clone(), refusal);
            }
        }
    }
    // Pods were preempted for it on its nominated node.
    let nominated = fitting.iter().find(|info| *info.name() == pod.status.nominated_node_name).copied();
    let Some(info) = nominated.or_else(|| best(pod, snapshot, &fitting)) else {
        return nowhere(pod, snapshot, &refusals);
    };
    let node = info.name().clone();
    match snapshot.volumes.preparations(pod, info) {
        Some(none) if none.is_empty() => ScheduleResult::Bind { node, fitting: fitting.len() },
        preparations => ScheduleResult::Prepare { node, preparations: preparations.unwrap_or_default() },
    }
}

fn nowhere(pod: &Pod, snapshot: &Snapshot, refusals: &BTreeMap<SmolStr, Refusal>) -> ScheduleResult {
    let mut counts = BTreeMap::new();
    for reason in refusals.values().flat_map(|refusal| &refusal.reasons) {
        *counts.entry(reason.as_str()).or_insert(0) += 1;
    }
    let message = summary(snapshot.nodes.len(), &counts);
    match preempt(pod, snapshot, refusals) {
        Ok(preemption) => ScheduleResult::Unschedulable { message, preemption: Some(preemption) },
        // Upstream: pkg/scheduler/framework/plugins/dynamicresources: says so of pods without claims, too.
        Err(why) => {
            let message = format!("{message} no new claims to deallocate, {why}");
            ScheduleResult::Unschedulable { message, preemption: None }
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
