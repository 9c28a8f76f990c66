//! On which nodes a daemon's pod belongs: names, selectors, affinity, taints. Pure.

use flyball_api::pod_template::TemplateSpec;
use flyball_api::taint::{Taint, Toleration};
use flyball_api::{DaemonSet, Node};
use flyball_common::nodeaffinity::Wish;
use smol_str::SmolStr;

/// What daemon pods bear on top of what their template says: a node in trouble keeps its daemons.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// What those bear that use the network of their node, and may be the ones to set it up.
const BORNE_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

/// What a node is to a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fit {
    /// A pod should be there.
    pub should_run: bool,
    /// A pod that is there may stay.
    pub may_stay: bool,
}

/// What a set asks of nodes, read once for all of them.
#[derive(Debug)]
pub struct Placement {
    node_name: SmolStr,
    wish: Wish,
    tolerations: Vec<Toleration>,
    comparisons: bool,
}

impl Placement {
    /// Reads a set's template. `comparisons` says whether tolerations may compare numbers (the gate
    /// `TaintTolerationComparisonOperators`).
    pub fn of(set: &DaemonSet, comparisons: bool) -> Self {
        let spec = &set.spec.template.spec;
        Self {
            node_name: spec.node_name.clone(),
            wish: Wish::new(&spec.node_selector, spec.affinity.as_ref()),
            tolerations: tolerations(spec),
            comparisons,
        }
    }

    /// What a node is to the set.
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

/// The tolerations of a daemon's pods: the template's, and those that all daemons have.
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
            // For ever, whatever the template says.
            Some(own) => own.toleration_seconds = None,
            None => tolerations.push(wanted),
        }
    }
    tolerations
}
