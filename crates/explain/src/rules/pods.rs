//! Pods as a whole: how they ended, their node, their sandbox, their gates.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{list, one_line, seconds_between, since, span};
use crate::world::{Lookup, World};

use super::containers::{containers, exit_text};
use super::nodes;

/// The kubelet usually acts within this time.
const SOON: i64 = 30;

pub(super) fn ended(_: &World, pod: Obj<'_>) -> Vec<Finding> {
    if pod.text("/status/phase") != "Failed" {
        return Vec::new();
    }
    let message = one_line(pod.text("/status/message"), 200);
    let text = match pod.text("/status/reason") {
        "Evicted" => format!("the kubelet evicted it: {message}"),
        "DeadlineExceeded" => {
            let limit = pod.count("/spec/activeDeadlineSeconds");
            format!("it ran longer than activeDeadlineSeconds ({})", span(limit))
        }
        "Preempting" => format!("it made room for a pod with a higher priority: {message}"),
        "NodeLost" => "its node was lost".to_owned(),
        "NodeAffinity"
        | "NodePorts"
        | "OutOfcpu"
        | "OutOfmemory"
        | "OutOfpods"
        | "UnexpectedAdmissionError" => {
            format!("the kubelet refused it ({}): {message}", pod.text("/status/reason"))
        }
        reason => {
            let disrupted = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
            let failed = containers(pod).find_map(|container| {
                let ended = Obj(container.status.at("/state/terminated"));
                (ended.count("/exitCode") != 0)
                    .then(|| format!("{} failed: {}", container.called(), exit_text(ended)))
            });
            match (disrupted, failed) {
                (Some(disrupted), _) => {
                    format!("it was disrupted ({}): {}", disrupted.reason, disrupted.message)
                }
                (None, Some(failed)) => failed,
                (None, None) => format!("it failed: {reason} {message}").trim_end().to_owned(),
            }
        }
    };
    let finding = Finding::blocks("pod-ended", pod, text);
    let is_crash = finding.text.contains("exit code");
    vec![match is_crash {
        true => finding.advise(format!("kubectl -n {} logs {}", pod.namespace(), pod.name())),
        false => finding,
    }]
}

pub(super) fn node_lost(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    let name = pod.text("/spec/nodeName");
    if name.is_empty() || pod.is_deleting() || matches!(pod.text("/status/phase"), "Succeeded" | "Failed") {
        return Vec::new();
    }
    match world.get("Node", "", name) {
        Lookup::Absent => {
            let text = format!("its node {name} does not exist");
            vec![Finding::blocks("node-lost", pod, text).advise("delete the pod: no kubelet runs it")]
        }
        Lookup::Found(node) if !nodes::is_ready(node) && !pod.has("Ready", "True") => {
            vec![Finding::blocks(
                "node-lost",
                pod,
                format!("its node {name} is not ready: {}", nodes::why_not_ready(world, node)),
            )]
        }
        Lookup::Found(_) | Lookup::Unknown => Vec::new(),
    }
}

pub(super) fn sandbox(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    let is_starting = pod.text("/status/phase") == "Pending" && !pod.text("/spec/nodeName").is_empty();
    let event = is_starting
        .then(|| world.event(pod, &["FailedCreatePodSandBox", "FailedCreatePodSandbox", "NetworkNotReady"]));
    let Some(event) = event.flatten() else { return Vec::new() };
    let text = format!("the node cannot set up the pod's sandbox: {}", one_line(event.message, 220));
    let is_network = event.message.contains("network") || event.message.contains("cni");
    let advice = match is_network {
        true => "check the network plugin (CNI) on the node",
        false => "check the container runtime on the node",
    };
    vec![Finding::blocks("sandbox", pod, text).advise(advice)]
}

pub(super) fn readiness_gates(_: &World, pod: Obj<'_>) -> Vec<Finding> {
    if pod.has("Ready", "True") || !pod.has("ContainersReady", "True") {
        return Vec::new();
    }
    let gates = pod.list("/spec/readinessGates").map(|gate| gate.text("/conditionType"));
    let closed: Vec<String> = gates
        .filter(|gate| !pod.has(gate, "True"))
        .map(|gate| match pod.condition(gate) {
            Some(condition) if !condition.message.is_empty() => format!("{gate} ({})", condition.message),
            Some(condition) => format!("{gate} (is {})", condition.status),
            None => format!("{gate} (it is not set)"),
        })
        .collect();
    if closed.is_empty() {
        return Vec::new();
    }
    let text = format!("its containers are ready, but not its readiness gates: {}", list(&closed, 4));
    vec![
        Finding::blocks("readiness-gates", pod, text)
            .advise("the controller that sets the condition must do so"),
    ]
}

/// Assigned to a node, and the kubelet has not reported a container.
pub(super) fn starting(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    let is_assigned = !pod.text("/spec/nodeName").is_empty();
    if pod.text("/status/phase") != "Pending"
        || !is_assigned
        || containers(pod).next().is_some()
        || pod.is_deleting()
    {
        return Vec::new();
    }
    let assigned = pod.condition("PodScheduled").and_then(|condition| condition.since);
    let node = pod.text("/spec/nodeName");
    let text = format!(
        "it was assigned to node {node}, and its kubelet has not started it{}",
        since(assigned, world.now)
    );
    let is_late = assigned.is_some_and(|time| seconds_between(time, world.now) > SOON);
    vec![match is_late {
        true => Finding::blocks("pod-starting", pod, text).advise(format!("check the kubelet on {node}")),
        false => Finding::waits("pod-starting", pod, text),
    }]
}
