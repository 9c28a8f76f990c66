//! Which nodes are feasible for a pod; the reasons for the others in kube-scheduler's words.

use flyball_api::Quantity;
use flyball_api::taint::Taint;
use smol_str::{SmolStr, format_smolstr};

use super::affinity::Relations;
use super::snapshot::{NodeInfo, Snapshot};
use super::spread::Spread;
use super::{requests, terms, volumes};
use crate::objects::{ContainerPort, Pod};

/// Why a node is not feasible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reasons; each is counted in the message.
    pub(super) reasons: Vec<SmolStr>,
    /// Whether preempting pods on the node could help.
    pub(super) resolvable: bool,
}

impl Refusal {
    pub(super) fn resolvable(reason: &'static str) -> Self {
        Self { reasons: vec![SmolStr::new_static(reason)], resolvable: true }
    }

    pub(super) fn unresolvable(reason: impl Into<SmolStr>) -> Self {
        Self { reasons: vec![reason.into()], resolvable: false }
    }
}

/// The parts of the filters that depend on the pod only, computed once.
pub(super) struct Filters<'a> {
    pod: &'a Pod,
    snapshot: &'a Snapshot,
    relations: Relations<'a>,
    spread: Spread<'a>,
}

impl<'a> Filters<'a> {
    pub(super) fn new(pod: &'a Pod, snapshot: &'a Snapshot) -> Self {
        Self { pod, snapshot, relations: Relations::new(pod, snapshot), spread: Spread::new(pod, snapshot) }
    }

    /// Whether the node is feasible. Only the first filter that fails is reported.
    pub(super) fn check(&self, info: &NodeInfo) -> Result<(), Refusal> {
        let pod = self.pod;
        if info.node.spec.unschedulable && !tolerates(pod, &UNSCHEDULABLE) {
            return Err(Refusal::unresolvable("node(s) were unschedulable"));
        }
        if untolerated(pod, info).next().is_some() {
            return Err(Refusal::unresolvable("node(s) had untolerated taint(s)"));
        }
        if !terms::accepts(pod, &info.node) {
            return Err(Refusal::unresolvable("node(s) didn't match Pod's node affinity/selector"));
        }
        if has_port_conflict(pod, info) {
            return Err(Refusal::resolvable("node(s) didn't have free ports for the requested pod ports"));
        }
        fits(pod, info)?;
        volumes::check(pod, info, &self.snapshot.volumes)?;
        self.spread.check(info)?;
        self.relations.check(info)
    }
}

const UNSCHEDULABLE: Taint = Taint {
    key: SmolStr::new_static("node.kubernetes.io/unschedulable"),
    value: SmolStr::new_static(""),
    effect: SmolStr::new_static("NoSchedule"),
    time_added: None,
};

fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint, false))
}

/// The taints of a node that the pod does not tolerate.
pub(super) fn untolerated<'a>(pod: &'a Pod, info: &'a NodeInfo) -> impl Iterator<Item = &'a Taint> {
    let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    info.node.spec.taints.iter().filter(hard).filter(|taint| !tolerates(pod, taint))
}

/// How many `PreferNoSchedule` taints the pod does not tolerate.
pub(super) fn untolerated_preferences(pod: &Pod, info: &NodeInfo) -> usize {
    let soft = info.node.spec.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    soft.filter(|taint| !tolerates(pod, taint)).count()
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let containers = pod.spec.init_containers.iter().filter(|c| c.is_sidecar()).chain(&pod.spec.containers);
    containers.flat_map(|container| &container.ports).filter(|port| port.host_port > 0)
}

fn has_port_conflict(pod: &Pod, info: &NodeInfo) -> bool {
    let everywhere = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    let protocol = |port: &ContainerPort| match port.protocol.as_str() {
        "" => SmolStr::new_static("TCP"),
        _ => port.protocol.clone(),
    };
    let clash = |a: &ContainerPort, b: &ContainerPort| {
        let same_ip = a.host_ip == b.host_ip || everywhere(&a.host_ip) || everywhere(&b.host_ip);
        a.host_port == b.host_port && protocol(a) == protocol(b) && same_ip
    };
    host_ports(pod)
        .any(|wanted| info.pods.iter().flat_map(|other| host_ports(other)).any(|taken| clash(wanted, taken)))
}

/// Whether the node's free resources are enough.
// Upstream: plugins/noderesources/fit.go: a pod without requests only counts as a pod.
fn fits(pod: &Pod, info: &NodeInfo) -> Result<(), Refusal> {
    let allocatable = &info.node.status.allocatable;
    let mut reasons = Vec::new();
    let mut resolvable = true;
    let places = allocatable.get("pods").map_or(0, |places| places.value());
    let taken = i64::try_from(info.pods.len()).unwrap_or(i64::MAX);
    if taken >= places {
        reasons.push(SmolStr::new_static("Too many pods"));
        resolvable &= places > 0;
    }
    for (name, wanted) in requests::of(pod).iter().filter(|(_, wanted)| !wanted.is_zero()) {
        let has = allocatable.get(name).unwrap_or(Quantity::ZERO);
        let used = info.used.get(name).unwrap_or(Quantity::ZERO);
        if wanted + used > has {
            reasons.push(format_smolstr!("Insufficient {name}"));
            resolvable &= wanted <= has;
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(Refusal { reasons, resolvable }) }
}
