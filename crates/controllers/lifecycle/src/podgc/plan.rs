//! Which pods are to be deleted, and why. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Node, Timestamp, Uid};
use flyball_common::disruption::target;
use serde_json::{Value, json};
use smol_str::SmolStr;

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has ended, and there are too many such pods.
    Terminated,
    /// It is to go, and its node is out of service.
    OutOfService,
    Orphaned,
    /// It is to go, and was never bound to a node.
    Unscheduled,
}

impl Reason {
    /// The word for it in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }

    pub fn why(self) -> &'static str {
        match self {
            Self::Terminated => {
                "it has ended, and more such pods are kept than --terminated-pod-gc-threshold allows"
            }
            Self::OutOfService => "it is to go, and its node is out of service",
            Self::Orphaned => "its node no longer exists",
            Self::Unscheduled => "it is to go, and was never bound to a node",
        }
    }
}

/// The nodes that pods are bound to and the cache does not have.
pub fn missing_nodes(pods: &[Arc<Pod>], has: impl Fn(&str) -> bool) -> BTreeSet<SmolStr> {
    let named = pods.iter().map(|pod| &pod.spec.node_name).filter(|node| !node.is_empty());
    // Many pods share a node, so each node is looked up once.
    let nodes: BTreeSet<&SmolStr> = named.collect();
    nodes.into_iter().filter(|node| !has(node)).cloned().collect()
}

/// Everything the decision may look at.
pub struct View<'a> {
    pub pods: &'a [Arc<Pod>],
    /// How many finished pods may stay; zero or less: all of them.
    pub threshold: i32,
    pub node: &'a dyn Fn(&str) -> Option<Arc<Node>>,
    /// Nodes that are known to be gone.
    pub gone: &'a BTreeSet<SmolStr>,
}

/// The pods to delete; each once, for the first reason that applies.
pub fn plan<'a>(view: &View<'a>) -> Vec<(&'a Arc<Pod>, Reason)> {
    let of = |reason: Reason, applies: &dyn Fn(&Pod) -> bool| -> Vec<(&'a Arc<Pod>, Reason)> {
        view.pods.iter().filter(|pod| applies(pod)).map(|pod| (pod, reason)).collect()
    };
    let out_of_service = of(Reason::OutOfService, &|pod| {
        pod.metadata.is_deleting()
            && !pod.spec.node_name.is_empty()
            && (view.node)(&pod.spec.node_name).is_some_and(|node| is_out_of_service(&node))
    });
    let orphaned = of(Reason::Orphaned, &|pod| view.gone.contains(&pod.spec.node_name));
    let unscheduled =
        of(Reason::Unscheduled, &|pod| pod.metadata.is_deleting() && pod.spec.node_name.is_empty());
    let mut planned: BTreeSet<&Uid> = BTreeSet::new();
    let all = surplus(view).into_iter().chain(out_of_service).chain(orphaned).chain(unscheduled);
    all.filter(|(pod, _)| planned.insert(&pod.metadata.uid)).collect()
}

/// Finished pods over the threshold: evicted ones first, then the oldest.
fn surplus<'a>(view: &View<'a>) -> Vec<(&'a Arc<Pod>, Reason)> {
    let Some(threshold) = usize::try_from(view.threshold).ok().filter(|threshold| *threshold > 0) else {
        return vec![];
    };
    let mut ended: Vec<&Arc<Pod>> = view.pods.iter().filter(|pod| has_ended(pod)).collect();
    if ended.len() <= threshold {
        return vec![];
    }
    ended.sort_by_cached_key(|pod| {
        (Reverse(is_evicted(pod)), pod.metadata.creation_timestamp, pod.metadata.name.clone())
    });
    ended.truncate(ended.len() - threshold);
    ended.into_iter().map(|pod| (pod, Reason::Terminated)).collect()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.phase, Phase::Succeeded | Phase::Failed)
}

fn is_evicted(pod: &Pod) -> bool {
    pod.status.phase == Phase::Failed && pod.status.reason() == "Evicted"
}

fn is_out_of_service(node: &Node) -> bool {
    !node.is_ready() && node.is_declared_out_of_service()
}

/// The patch of the status by which a pod ends before it is deleted, so that whoever owns it sees how it ended;
/// `None` if it has ended already.
pub fn ending(pod: &Pod, reason: Reason, now: Timestamp) -> Option<Value> {
    if has_ended(pod) {
        return None;
    }
    let generation = pod.metadata.generation;
    let mut status = json!({"phase": "Failed", "observedGeneration": generation});
    if reason == Reason::Orphaned {
        status["conditions"] = json!([target(pod, "DeletionByPodGC", "PodGC: node no longer exists", now)]);
    }
    Some(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}))
}
