//! Which nodes a pod may go to, and in kube-scheduler's words why not to the others.

use flyball_api::Quantity;
use flyball_api::taint::Taint;
use smol_str::{SmolStr, format_smolstr};

use super::affinity::Relations;
use super::spread::Spread;
use super::world::{Seat, World};
use super::{requests, terms, volumes};
use crate::objects::{ContainerPort, Pod};

/// Why a node will not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reasons, each of which counts in the message.
    pub(super) reasons: Vec<SmolStr>,
    /// Whether removing pods from the node could help.
    pub(super) resolvable: bool,
}

impl Refusal {
    pub(super) fn resolvable(reason: &'static str) -> Self {
        Self { reasons: vec![SmolStr::new_static(reason)], resolvable: true }
    }

    pub(super) fn hopeless(reason: impl Into<SmolStr>) -> Self {
        Self { reasons: vec![reason.into()], resolvable: false }
    }
}

/// What is found out about a pod once, before nodes are looked at one by one.
pub(super) struct Filters<'a> {
    pod: &'a Pod,
    world: &'a World,
    relations: Relations<'a>,
    spread: Spread<'a>,
}

impl<'a> Filters<'a> {
    pub(super) fn new(pod: &'a Pod, world: &'a World) -> Self {
        Self { pod, world, relations: Relations::new(pod, world), spread: Spread::new(pod, world) }
    }

    /// Whether the pod may go to a node. The first rule that speaks against it is the one that is told.
    pub(super) fn check(&self, seat: &Seat) -> Result<(), Refusal> {
        let pod = self.pod;
        if seat.node.spec.unschedulable && !bears(pod, &UNSCHEDULABLE) {
            return Err(Refusal::hopeless("node(s) were unschedulable"));
        }
        if untolerated(pod, seat).next().is_some() {
            return Err(Refusal::hopeless("node(s) had untolerated taint(s)"));
        }
        if !terms::accepts(pod, &seat.node) {
            return Err(Refusal::hopeless("node(s) didn't match Pod's node affinity/selector"));
        }
        if has_port_conflict(pod, seat) {
            return Err(Refusal::resolvable("node(s) didn't have free ports for the requested pod ports"));
        }
        fits(pod, seat)?;
        volumes::check(pod, seat, &self.world.volumes)?;
        self.spread.check(seat)?;
        self.relations.check(seat)
    }
}

const UNSCHEDULABLE: Taint = Taint {
    key: SmolStr::new_static("node.kubernetes.io/unschedulable"),
    value: SmolStr::new_static(""),
    effect: SmolStr::new_static("NoSchedule"),
    time_added: None,
};

fn bears(pod: &Pod, taint: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint, false))
}

/// The taints of a node that keep a pod away.
pub(super) fn untolerated<'a>(pod: &'a Pod, seat: &'a Seat) -> impl Iterator<Item = &'a Taint> {
    let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    seat.node.spec.taints.iter().filter(hard).filter(|taint| !bears(pod, taint))
}

/// How many taints would rather not have the pod.
pub(super) fn disliked(pod: &Pod, seat: &Seat) -> usize {
    let soft = seat.node.spec.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    soft.filter(|taint| !bears(pod, taint)).count()
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let containers = pod.spec.init_containers.iter().filter(|c| c.is_sidecar()).chain(&pod.spec.containers);
    containers.flat_map(|container| &container.ports).filter(|port| port.host_port > 0)
}

fn has_port_conflict(pod: &Pod, seat: &Seat) -> bool {
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
        .any(|wanted| seat.pods.iter().flat_map(|other| host_ports(other)).any(|taken| clash(wanted, taken)))
}

/// Whether what the node has left is enough.
// Upstream: plugins/noderesources/fit.go: a pod that asks for nothing only counts as a pod.
fn fits(pod: &Pod, seat: &Seat) -> Result<(), Refusal> {
    let allocatable = &seat.node.status.allocatable;
    let mut reasons = Vec::new();
    let mut resolvable = true;
    let places = allocatable.get("pods").map_or(0, |places| places.value());
    let taken = i64::try_from(seat.pods.len()).unwrap_or(i64::MAX);
    if taken >= places {
        reasons.push(SmolStr::new_static("Too many pods"));
        resolvable &= places > 0;
    }
    for (name, wanted) in requests::of(pod).iter().filter(|(_, wanted)| !wanted.is_zero()) {
        let has = allocatable.get(name).unwrap_or(Quantity::ZERO);
        let used = seat.used.get(name).unwrap_or(Quantity::ZERO);
        if wanted + used > has {
            reasons.push(format_smolstr!("Insufficient {name}"));
            resolvable &= wanted <= has;
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(Refusal { reasons, resolvable }) }
}
