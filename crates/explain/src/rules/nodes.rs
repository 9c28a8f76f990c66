//! Nodes: readiness, pressure, taints, and what keeps a drain from ending.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{counted, list, one_line, seconds_between, since, span};
use crate::world::World;

use super::disruption::budgets_of;

pub(crate) fn is_ready(node: Obj<'_>) -> bool {
    node.has("Ready", "True")
}

/// Why a node is not ready, as the kubelet or the node monitor reported it.
pub(super) fn why_not_ready(world: &World, node: Obj<'_>) -> String {
    let Some(ready) = node.condition("Ready") else { return "its kubelet has never reported".to_owned() };
    let lease = world.get("Lease", "kube-node-lease", node.name()).found();
    let renewed = lease.and_then(|lease| lease.time("/spec/renewTime"));
    let heartbeat = match renewed {
        Some(time) => format!(" (last heartbeat {} ago)", span(seconds_between(time, world.now))),
        None => String::new(),
    };
    match ready.status {
        "Unknown" => format!("its kubelet has stopped reporting{}{heartbeat}", since(ready.since, world.now)),
        _ => format!("{}{}", one_line(ready.message, 200), since(ready.since, world.now)),
    }
}

pub(super) fn not_ready(world: &World, node: Obj<'_>) -> Vec<Finding> {
    if is_ready(node) {
        return Vec::new();
    }
    let text = format!("it is not ready: {}", why_not_ready(world, node));
    let advice = match node.condition("Ready").map(|ready| ready.status) {
        Some("Unknown") | None => "check that the machine runs, its kubelet, and its way to the API server",
        _ => "see the kubelet's message; `journalctl -u kubelet` on the node has more",
    };
    vec![Finding::blocks("node-not-ready", node, text).advise(advice)]
}

pub(super) fn pressure(_: &World, node: Obj<'_>) -> Vec<Finding> {
    let kinds = ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];
    let found =
        node.conditions().filter(|condition| kinds.contains(&condition.kind) && condition.status == "True");
    found
        .map(|condition| {
            let text = format!("{}: {}", condition.kind, one_line(condition.message, 160));
            Finding::blocks("node-pressure", node, text)
                .advise("no new pods are scheduled here until it ends")
        })
        .collect()
}

pub(super) fn taints(_: &World, node: Obj<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if node.is_true("/spec/unschedulable") {
        let text = "it is cordoned: no new pods are scheduled here";
        found.push(
            Finding::notes("node-taints", node, text).advise(format!("kubectl uncordon {}", node.name())),
        );
    }
    let taints: Vec<String> = node
        .list("/spec/taints")
        .filter(|taint| taint.text("/key") != "node.kubernetes.io/unschedulable")
        .map(taint_text)
        .collect();
    if !taints.is_empty() {
        found.push(Finding::notes("node-taints", node, format!("taints: {}", list(&taints, 6))));
    }
    found
}

/// `dedicated=gpu:NoSchedule`.
pub(super) fn taint_text(taint: Obj<'_>) -> String {
    let value = match taint.text("/value") {
        "" => String::new(),
        value => format!("={value}"),
    };
    format!("{}{value}:{}", taint.text("/key"), taint.text("/effect"))
}

/// The taints with one of these effects that the pod (or a pod template) does not tolerate.
pub(super) fn untolerated<'a>(node: Obj<'a>, pod: Obj<'_>, effects: &[&str]) -> Vec<Obj<'a>> {
    node.list("/spec/taints")
        .filter(|taint| effects.contains(&taint.text("/effect")))
        .filter(|taint| !pod.list("/spec/tolerations").any(|toleration| tolerates(toleration, *taint)))
        .collect()
}

pub(crate) fn tolerates(toleration: Obj<'_>, taint: Obj<'_>) -> bool {
    let (effect, key) = (toleration.text("/effect"), toleration.text("/key"));
    let exists = toleration.text("/operator") == "Exists";
    (effect.is_empty() || effect == taint.text("/effect"))
        && (key == taint.text("/key") || (key.is_empty() && exists))
        && (exists || toleration.text("/value") == taint.text("/value"))
}

/// On a cordoned node: the pods that a drain could not evict.
pub(super) fn drain(world: &World, node: Obj<'_>) -> Vec<Finding> {
    if !node.is_true("/spec/unschedulable") {
        return Vec::new();
    }
    let here = world.list("Pod", "").filter(|pod| pod.text("/spec/nodeName") == node.name());
    let mut held = Vec::new();
    for pod in here.filter(|pod| !matches!(pod.text("/status/phase"), "Succeeded" | "Failed")) {
        if pod.controller().is_some_and(|owner| owner.kind == "DaemonSet") {
            continue;
        }
        for budget in budgets_of(world, pod)
            .into_iter()
            .filter(|budget| budget.count("/status/disruptionsAllowed") == 0)
        {
            held.push(format!("{}/{} (PodDisruptionBudget {})", pod.namespace(), pod.name(), budget.name()));
        }
    }
    if held.is_empty() {
        return Vec::new();
    }
    let text = format!(
        "it cannot be drained: {} may not be evicted now: {}",
        counted(i64::try_from(held.len()).unwrap_or(i64::MAX), "pod"),
        list(&held, 5)
    );
    vec![Finding::blocks("node-drain", node, text).advise("ask why of the PodDisruptionBudget")]
}
