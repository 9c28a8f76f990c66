//! What the scheduler looks at: nodes with the pods on them, and what pods refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::node::Node;
use flyball_api::pod_disruption_budget::PodDisruptionBudget;
use flyball_api::{Labels, ResourceList};
use smol_str::SmolStr;

use super::requests;
use super::volumes::Volumes;
use crate::objects::Pod;

/// A snapshot of the cluster.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub nodes: Vec<Seat>,
    pub volumes: Volumes,
    pub namespaces: BTreeMap<SmolStr, Labels>,
    /// What may not be disrupted.
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
}

/// A node and what is on it.
#[derive(Debug, Clone)]
pub struct Seat {
    pub node: Arc<Node>,
    /// Pods that are bound to it and have not finished.
    pub pods: Vec<Arc<Pod>>,
    /// What those pods ask for together.
    pub used: ResourceList,
}

impl Seat {
    pub fn new(node: Arc<Node>) -> Self {
        Self { node, pods: Vec::new(), used: ResourceList::default() }
    }

    /// Puts a pod on it.
    pub fn add(&mut self, pod: Arc<Pod>) {
        self.used.add(&requests::of(&pod));
        self.pods.push(pod);
    }

    /// The same node with only those pods that `keep` wants.
    pub fn with(&self, keep: impl Fn(&Pod) -> bool) -> Self {
        let mut seat = Self::new(Arc::clone(&self.node));
        self.pods.iter().filter(|pod| keep(pod)).for_each(|pod| seat.add(Arc::clone(pod)));
        seat
    }

    pub fn name(&self) -> &SmolStr {
        &self.node.metadata.name
    }

    /// The value of one of its labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.node.metadata.labels.get(key)
    }
}

impl World {
    /// A world of these nodes and pods; pods that are not on any of them are left out.
    pub fn new(nodes: impl IntoIterator<Item = Arc<Node>>, pods: impl IntoIterator<Item = Arc<Pod>>) -> Self {
        let mut seats: BTreeMap<SmolStr, Seat> =
            nodes.into_iter().map(|node| (node.metadata.name.clone(), Seat::new(node))).collect();
        for pod in pods {
            if let Some(seat) = seats.get_mut(&pod.spec.node_name).filter(|_| !pod.is_finished()) {
                seat.add(pod);
            }
        }
        Self { nodes: seats.into_values().collect(), ..Self::default() }
    }

    /// Puts a pod on a node, as if it were bound to it already.
    pub fn assume(&mut self, pod: &Arc<Pod>, node: &str) {
        if let Some(seat) = self.nodes.iter_mut().find(|seat| seat.name() == node) {
            seat.add(Arc::clone(pod));
        }
    }

    /// All pods that are on nodes, with their nodes.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&Seat, &Arc<Pod>)> {
        self.nodes.iter().flat_map(|seat| seat.pods.iter().map(move |pod| (seat, pod)))
    }
}
