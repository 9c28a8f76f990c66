//! The input of the decisions, borrowed from one snapshot: nodes with their daemon pods. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::intstr::{InvalidPercentage, Rounding};
use flyball_api::pod::Pod;
use flyball_api::{DaemonSet, Node, Timestamp};
use smol_str::SmolStr;

use super::manifests::{is_updated, target_node, template_generation};
use super::placement::{Fit, Placement};

/// One node, which may be gone.
#[derive(Debug)]
pub struct DaemonNode<'a> {
    pub exists: bool,
    /// Whether it should run a pod; neither is true once it is gone.
    pub fit: Fit,
    /// The daemon pods on it or created for it: scheduled ones first, then by age.
    pub pods: Vec<&'a Pod>,
}

/// Everything that the decisions depend on.
pub struct View<'a> {
    pub set: &'a DaemonSet,
    /// All nodes, and deleted nodes with pods, by name.
    pub daemon_nodes: BTreeMap<SmolStr, DaemonNode<'a>>,
    /// Its pods in any state.
    pub pods: &'a [Arc<Pod>],
    /// The hash of the set's revision.
    pub hash: &'a str,
    /// Nodes on which pods keep failing, with the remaining backoff.
    pub backoff: BTreeMap<SmolStr, Duration>,
    pub now: Timestamp,
    generation: Option<i64>,
}

impl<'a> View<'a> {
    /// Groups pods by node. Finished pods that are being deleted are left out.
    pub fn new(
        set: &'a DaemonSet,
        nodes: &[Arc<Node>],
        pods: &'a [Arc<Pod>],
        hash: &'a str,
        placement: &Placement,
        now: Timestamp,
    ) -> Self {
        let on_node = |node: &Arc<Node>| {
            (node.metadata.name.clone(), DaemonNode { exists: true, fit: placement.on(node), pods: vec![] })
        };
        let mut daemon_nodes: BTreeMap<_, _> = nodes.iter().map(on_node).collect();
        for pod in pods.iter().filter(|pod| !(pod.is_finished() && pod.metadata.is_deleting())) {
            let Some(node) = target_node(pod) else { continue };
            let gone = || DaemonNode { exists: false, fit: Fit::default(), pods: vec![] };
            daemon_nodes.entry(node).or_insert_with(gone).pods.push(pod);
        }
        for on_node in daemon_nodes.values_mut() {
            on_node.pods.sort_by_key(|pod| {
                let meta = &pod.metadata;
                (pod.spec.node_name.is_empty(), meta.creation_timestamp, meta.name.clone())
            });
        }
        let generation = template_generation(set);
        Self { set, daemon_nodes, pods, hash, backoff: BTreeMap::new(), now, generation }
    }

    /// How many nodes should run a pod.
    pub fn desired(&self) -> usize {
        self.daemon_nodes.values().filter(|on_node| on_node.fit.should_run).count()
    }

    /// Whether the update strategy is RollingUpdate.
    pub fn is_rolling(&self) -> bool {
        self.set.spec.update_strategy.type_ == "RollingUpdate"
    }

    /// Whether a node may have two pods while one replaces the other.
    pub fn is_surging(&self) -> bool {
        self.max_surge(1).is_ok_and(|surge| surge > 0)
    }

    /// The number of `desired` nodes that may have two pods.
    ///
    /// # Errors
    /// `maxSurge` is neither a number nor a percentage.
    pub fn max_surge(&self, desired: usize) -> Result<usize, InvalidPercentage> {
        let rolling = self.set.spec.update_strategy.rolling_update.as_ref().filter(|_| self.is_rolling());
        resolve(rolling.and_then(|rolling| rolling.max_surge.as_ref()), desired)
    }

    /// The number of `desired` nodes whose pod may be unavailable.
    ///
    /// # Errors
    /// `maxUnavailable` is neither a number nor a percentage.
    pub fn max_unavailable(&self, desired: usize) -> Result<usize, InvalidPercentage> {
        let rolling = self.set.spec.update_strategy.rolling_update.as_ref().filter(|_| self.is_rolling());
        resolve(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), desired)
    }

    /// Whether a pod has been ready for long enough.
    pub fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// Whether a pod was created from the current template.
    pub fn is_updated(&self, pod: &Pod) -> bool {
        is_updated(pod, self.hash, self.generation)
    }
}

fn resolve(amount: Option<&flyball_api::IntOrString>, desired: usize) -> Result<usize, InvalidPercentage> {
    let total = i64::try_from(desired).unwrap_or(i64::MAX);
    let amount = amount.map_or(Ok(0), |amount| amount.resolve(total, Rounding::Up))?;
    Ok(usize::try_from(amount).unwrap_or(0))
}
