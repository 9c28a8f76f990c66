//! The bodies of new pods. Pure.

use flyball_api::DaemonSet;
use flyball_api::pod::Pod;
use flyball_common::adoption::controller_reference;
use flyball_common::{nodeaffinity, pods};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::placement::tolerations;

/// The label of pods and revisions with the hash of the revision.
pub const HASH: &str = "controller-revision-hash";
/// The label with the template generation, which was used before there were revisions.
pub const GENERATION: &str = "pod-template-generation";
/// The annotation with the template generation, which the server still maintains.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The pod for one node. Node affinity makes the scheduler assign it there.
pub fn pod(set: &DaemonSet, hash: &str, node: &str) -> Value {
    let mut pod = pods::from_template(&set.spec.template, &set.metadata.name, &controller_reference(set));
    let labels = &mut pod["metadata"]["labels"];
    if let Some(generation) = template_generation(set) {
        labels[GENERATION] = generation.to_string().into();
    }
    labels[HASH] = hash.into();
    pod["spec"]["tolerations"] = json!(tolerations(&set.spec.template.spec));
    let required =
        &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"] =
        json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
    pod
}

/// The template generation of a set, if the server maintains it.
pub fn template_generation(set: &DaemonSet) -> Option<i64> {
    set.metadata.annotations.get(TEMPLATE_GENERATION)?.parse().ok()
}

/// Whether a pod was created from the current template.
pub fn is_updated(pod: &Pod, hash: &str, generation: Option<i64>) -> bool {
    let labels = &pod.metadata.labels;
    let is_of_hash = !hash.is_empty() && labels.get(HASH) == Some(hash);
    is_of_hash || generation.is_some_and(|wanted| labels.get(GENERATION) == Some(&wanted.to_string()))
}

/// The node that a pod runs on or was created for.
pub fn target_node(pod: &Pod) -> Option<SmolStr> {
    if !pod.spec.node_name.is_empty() {
        return Some(pod.spec.node_name.clone());
    }
    let required = nodeaffinity::required(pod.spec.rare().affinity.as_ref())?;
    nodeaffinity::named_node(&required).cloned()
}
