//! DaemonSets: which nodes have no pod, and why.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{counted, list};
use crate::world::World;

use super::common::pods_of;
use super::nodes::{taint_text, untolerated};

/// Taints that every pod of a DaemonSet tolerates.
const TOLERATED: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
];

pub(super) fn nodes(world: &World, set: Obj<'_>) -> Vec<Finding> {
    let template = Obj(set.at("/spec/template"));
    let pods = pods_of(world, set);
    let served: BTreeSet<&str> = pods.iter().map(|pod| node_of(*pod)).collect();
    let mut excluded: Vec<(String, Vec<&str>)> = Vec::new();
    for node in world.list("Node", "").filter(|node| !served.contains(node.name())) {
        let Some(why) = exclusion(template, node) else { continue };
        match excluded.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(node.name()),
            None => excluded.push((why, vec![node.name()])),
        }
    }
    let is_empty =
        set.count("/status/desiredNumberScheduled") == 0 && world.list("Node", "").next().is_some();
    excluded
        .into_iter()
        .map(|(why, names)| {
            let count = counted(i64::try_from(names.len()).unwrap_or(0), "node");
            let text = format!("no pod on {count} ({}): {why}", list(&names, 4));
            match is_empty {
                true => Finding::blocks("daemon-nodes", set, text),
                false => Finding::notes("daemon-nodes", set, text),
            }
        })
        .collect()
}

/// Where a pod runs or is to run: daemon pods are bound by node affinity.
fn node_of(pod: Obj<'_>) -> &str {
    let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    match pod.text("/spec/nodeName") {
        "" => pod.text(affinity),
        name => name,
    }
}

fn exclusion(template: Obj<'_>, node: Obj<'_>) -> Option<String> {
    let differs = template.pairs("/spec/nodeSelector").find(|(key, value)| node.label(key) != Some(value));
    if let Some((key, value)) = differs {
        return Some(format!("the node selector requires label {key}={value}"));
    }
    let taints = untolerated(node, template, &["NoSchedule", "NoExecute"]);
    let taint = taints.into_iter().find(|taint| !TOLERATED.contains(&taint.text("/key")))?;
    Some(format!("taint {} is not tolerated", taint_text(taint)))
}
