//! Which pods are to be deleted, and why. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Node, Object, Timestamp, Uid};
use flyball_client::{DeleteOptions, Error, Patch};
use flyball_common::disruption::target;
use flyball_runtime::plan::Group;
use flyball_runtime::{Effect, ErrorKinds, Plan, Write, exactly};
use serde_json::{Value, json};
use smol_str::SmolStr;

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has finished, and there are too many such pods.
    Terminated,
    /// It is terminating, and its node is out of service.
    OutOfService,
    Orphaned,
    /// It is terminating, and was never bound to a node.
    Unscheduled,
}

impl Reason {
    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Terminated => {
                "it has finished, and there are more such pods than --terminated-pod-gc-threshold allows"
            }
            Self::OutOfService => "it is terminating, and its node is out of service",
            Self::Orphaned => "its node no longer exists",
            Self::Unscheduled => "it is terminating, and was never bound to a node",
        }
    }
}

/// The data about a write that metrics need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    pub namespace: SmolStr,
    pub reason: Reason,
    pub step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The pod is marked `Failed`.
    Mark,
    Delete,
}

/// Everything that the decision depends on.
pub struct View {
    pub pods: Vec<Arc<Pod>>,
    /// How many finished pods are kept (`--terminated-pod-gc-threshold`); all of them if zero or less.
    pub threshold: i32,
    /// The nodes that pods are bound to.
    pub nodes: BTreeMap<SmolStr, Arc<Node>>,
    /// Nodes that are known to be gone.
    pub gone: BTreeSet<SmolStr>,
    /// Whether `observedGeneration` is set (`PodObservedGenerationTracking`).
    pub tracks_generation: bool,
    pub now: Timestamp,
}

/// The nodes that pods are bound to, each once.
pub fn nodes_of(pods: &[Arc<Pod>]) -> BTreeSet<&SmolStr> {
    pods.iter().map(|pod| &pod.spec.node_name).filter(|node| !node.is_empty()).collect()
}

/// What the server says about a node that has been missing in the cache for a while.
#[derive(Debug)]
pub enum Existence {
    /// The cache is behind.
    Exists,
    Gone,
    /// The next round finds it missing again, and it is read again after another quarantine.
    Unknown(Error),
}

impl Existence {
    pub fn of(answer: Result<Node, Error>) -> Self {
        match answer {
            Ok(_) => Self::Exists,
            Err(error) if error.is_not_found() => Self::Gone,
            Err(error) => Self::Unknown(error),
        }
    }
}

/// Marks and deletes pods; each once, for the first reason that applies.
pub fn plan(view: &View) -> Plan<Tag> {
    let all = to_delete(view).into_iter().map(|(pod, reason)| mark_and_delete(view, pod, reason));
    Plan::of([Effect::concurrent(all)])
}

fn to_delete(view: &View) -> Vec<(&Pod, Reason)> {
    let of = |reason: Reason, applies: &dyn Fn(&Pod) -> bool| -> Vec<(&Pod, Reason)> {
        view.pods.iter().filter(|pod| applies(pod)).map(|pod| (&**pod, reason)).collect()
    };
    let out_of_service = of(Reason::OutOfService, &|pod| {
        pod.metadata.is_deleting()
            && view.nodes.get(&pod.spec.node_name).is_some_and(|node| is_out_of_service(node))
    });
    let orphaned = of(Reason::Orphaned, &|pod| view.gone.contains(&pod.spec.node_name));
    let unscheduled =
        of(Reason::Unscheduled, &|pod| pod.metadata.is_deleting() && pod.spec.node_name.is_empty());
    let mut chosen: BTreeSet<&Uid> = BTreeSet::new();
    let all = surplus(view).into_iter().chain(out_of_service).chain(orphaned).chain(unscheduled);
    all.filter(|(pod, _)| chosen.insert(&pod.metadata.uid)).collect()
}

/// Finished pods over the threshold: evicted ones first, then the oldest.
fn surplus(view: &View) -> Vec<(&Pod, Reason)> {
    let Some(threshold) = usize::try_from(view.threshold).ok().filter(|threshold| *threshold > 0) else {
        return vec![];
    };
    let mut finished: Vec<&Pod> =
        view.pods.iter().map(|pod| &**pod).filter(|pod| has_finished(pod)).collect();
    if finished.len() <= threshold {
        return vec![];
    }
    finished.sort_by_cached_key(|pod| {
        (Reverse(is_evicted(pod)), pod.metadata.creation_timestamp, pod.metadata.name.clone())
    });
    finished.truncate(finished.len() - threshold);
    finished.into_iter().map(|pod| (pod, Reason::Terminated)).collect()
}

fn has_finished(pod: &Pod) -> bool {
    matches!(pod.status.phase, Phase::Succeeded | Phase::Failed)
}

fn is_evicted(pod: &Pod) -> bool {
    pod.status.phase == Phase::Failed && pod.status.reason() == "Evicted"
}

fn is_out_of_service(node: &Node) -> bool {
    !node.is_ready() && node.is_declared_out_of_service()
}

/// Marks a pod as failed and deletes it. A pod that is gone when it is to be marked is not deleted.
fn mark_and_delete(view: &View, pod: &Pod, reason: Reason) -> Group<Tag> {
    let tag = |step| Tag { namespace: pod.metadata.namespace.clone(), reason, step };
    let mark = failure(view, pod, reason).map(|patch| {
        let mark = Write::patch::<Pod>(pod.key(), Patch::Strategic(patch)).subresource("status");
        mark.why(reason.why()).ignore(ErrorKinds::NOT_FOUND).tag(tag(Step::Mark))
    });
    let options = DeleteOptions { grace_period: Some(0), ..exactly(&pod.metadata) };
    let delete = Write::delete_with::<Pod>(pod.key(), options)
        .why(reason.why())
        .ignore_only(ErrorKinds::NOT_FOUND)
        .tag(tag(Step::Delete));
    Effect::sequence(mark.into_iter().chain([delete])).stop_on(ErrorKinds::NOT_FOUND)
}

/// The status patch that marks a pod as failed before it is deleted, so that its owner counts it as failed; `None` if it has
/// finished already.
fn failure(view: &View, pod: &Pod, reason: Reason) -> Option<Value> {
    if has_finished(pod) {
        return None;
    }
    let tracks = view.tracks_generation;
    let mut status = json!({"phase": "Failed"});
    if tracks || pod.status.observed_generation != 0 {
        status["observedGeneration"] = pod.metadata.generation.into();
    }
    if reason == Reason::Orphaned {
        let message = "PodGC: node no longer exists";
        status["conditions"] = json!([target(pod, "DeletionByPodGC", message, tracks, view.now)]);
    }
    Some(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}))
}
