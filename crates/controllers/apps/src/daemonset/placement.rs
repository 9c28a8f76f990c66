//! Which nodes should run a daemon pod: by name, selector, affinity and taints. Pure.

use flyball_api::pod_template::TemplateSpec;
use flyball_api::taint::{Taint, Toleration};
use flyball_api::{DaemonSet, Node};
use flyball_common::nodeaffinity::NodeRequirements;
use smol_str::SmolStr;

/// Tolerations that all daemon pods have besides those of the template: an unhealthy node keeps its daemon pods.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// An additional toleration of pods with `hostNetwork`, which may set up the network of the node.
const BORNE_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

/// Whether a node should run a pod of the set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fit {
    /// A pod should be there.
    pub should_run: bool,
    /// An existing pod may stay.
    pub may_stay: bool,
}

/// The requirements of a set on nodes, parsed once for all nodes.
#[derive(Debug)]
pub struct Placement {
    node_name: SmolStr,
    wish: NodeRequirements,
    tolerations: Vec<Toleration>,
    comparisons: bool,
}

impl Placement {
    /// Parses the template of a set. `comparisons` says whether tolerations may compare numbers (the gate
    /// `TaintTolerationComparisonOperators`).
    pub fn of(set: &DaemonSet, comparisons: bool) -> Self {
        let spec = &set.spec.template.spec;
        Self {
            node_name: spec.node_name.clone(),
            wish: NodeRequirements::new(&spec.node_selector, spec.affinity.as_ref()),
            tolerations: tolerations(spec),
            comparisons,
        }
    }

    /// Whether a node should run a pod, and whether one may stay.
    pub fn on(&self, node: &Node) -> Fit {
        let is_named = self.node_name.is_empty() || self.node_name == node.metadata.name;
        if !is_named || !self.wish.is_met_by(node) {
            return Fit::default();
        }
        let bears = |taint: &Taint| self.tolerations.iter().any(|own| own.tolerates(taint, self.comparisons));
        let bears_all =
            |effect: &str| node.spec.taints.iter().filter(|taint| taint.effect == effect).all(bears);
        let may_stay = bears_all(NO_EXECUTE);
        Fit { should_run: may_stay && bears_all(NO_SCHEDULE), may_stay }
    }
}

/// The tolerations of daemon pods: those of the template, and those that all daemon pods have.
pub fn tolerations(spec: &TemplateSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.to_vec();
    let on_host_network = spec.host_network.then_some(BORNE_ON_HOST_NETWORK);
    for (key, effect) in BORNE.into_iter().chain(on_host_network) {
        let wanted = Toleration {
            key: key.into(),
            operator: "Exists".into(),
            effect: effect.into(),
            ..Toleration::default()
        };
        let is_same =
            |own: &&mut Toleration| Toleration { toleration_seconds: None, ..(**own).clone() } == wanted;
        match tolerations.iter_mut().find(is_same) {
            // Without a limit, even if the template sets one.
            Some(own) => own.toleration_seconds = None,
            None => tolerations.push(wanted),
        }
    }
    tolerations
}
