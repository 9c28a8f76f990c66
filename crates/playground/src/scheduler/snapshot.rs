//! The scheduler's input: nodes with their pods, and the objects that pods refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::node::Node;
use flyball_api::pod_disruption_budget::PodDisruptionBudget;
use flyball_api::{Labels, ResourceList};
use smol_str::SmolStr;

use super::requests;
use super::volumes::Volumes;
use crate::objects::Pod;

#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub nodes: Vec<NodeInfo>,
    pub volumes: Volumes,
    pub namespaces: BTreeMap<SmolStr, Labels>,
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
}

/// A node and its pods.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    pub node: Arc<Node>,
    /// Pods that are bound to it and have not finished.
    pub pods: Vec<Arc<Pod>>,
    /// The sum of their requests.
    pub used: ResourceList,
}

impl NodeInfo {
    pub fn new(node: Arc<Node>) -> Self {
        Self { node, pods: Vec::new(), used: ResourceList::default() }
    }

    pub fn add(&mut self, pod: Arc<Pod>) {
        self.used.add(&requests::of(&pod));
        self.pods.push(pod);
    }

    /// The same node with only those pods for which `keep` holds.
    pub fn with(&self, keep: impl Fn(&Pod) -> bool) -> Self {
        let mut info = Self::new(Arc::clone(&self.node));
        self.pods.iter().filter(|pod| keep(pod)).for_each(|pod| info.add(Arc::clone(pod)));
        info
    }

    pub fn name(&self) -> &SmolStr {
        &self.node.metadata.name
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.node.metadata.labels.get(key)
    }
}

impl Snapshot {
    /// Pods that are on none of the nodes are ignored.
    pub fn new(nodes: impl IntoIterator<Item = Arc<Node>>, pods: impl IntoIterator<Item = Arc<Pod>>) -> Self {
        let mut infos: BTreeMap<SmolStr, NodeInfo> =
            nodes.into_iter().map(|node| (node.metadata.name.clone(), NodeInfo::new(node))).collect();
        for pod in pods {
            if let Some(info) = infos.get_mut(&pod.spec.node_name).filter(|_| !pod.is_finished()) {
                info.add(pod);
            }
        }
        Self { nodes: infos.into_values().collect(), ..Self::default() }
    }

    /// Adds a pod to a node, as if it were bound to it already.
    pub fn assume(&mut self, pod: &Arc<Pod>, node: &str) {
        if let Some(info) = self.nodes.iter_mut().find(|info| info.name() == node) {
            info.add(Arc::clone(pod));
        }
    }

    /// All scheduled pods, with their nodes.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&NodeInfo, &Arc<Pod>)> {
        self.nodes.iter().flat_map(|info| info.pods.iter().map(move |pod| (info, pod)))
    }
}
