//! The ReplicaSet of the current template: its name, its hash and its initial size, and the update of an existing one.
//! Pure.

use flyball_api::pod_template::POD_TEMPLATE_HASH;
use flyball_api::{Deployment, Labels, ReplicaSet, Resource};
use flyball_common::adoption::controller_reference;
use serde_json::{Value, json};

use super::annotations::with_sizes;
use super::decision::{Action, View};
use super::fleet::Fleet;
use super::history::{next_revision, revised};
use super::rollout;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// A ReplicaSet to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReplicaSet {
    /// The name of the Deployment and the hash.
    pub name: String,
    /// The hash that distinguishes its pods from those of other templates.
    pub hash: String,
    pub replicas: i64,
    pub annotations: Labels,
}

impl NewReplicaSet {
    /// The ReplicaSet of the current template.
    pub fn of(view: &View<'_>, fleet: &Fleet<'_>) -> Self {
        let (deployment, limits) = (view.deployment, &view.limits);
        let hash = deployment.spec.template.hash(deployment.status.collision_count);
        let annotations = revised(deployment, &Labels::EMPTY, next_revision(fleet));
        let replicas = match limits.is_rolling() {
            true => rollout::size_of_new(limits, fleet.replicas(), 0),
            false => limits.desired,
        };
        Self {
            name: name(&deployment.metadata.name, &hash),
            hash,
            replicas,
            annotations: with_sizes(&annotations, limits.desired, limits.most()),
        }
    }

    /// The set as created, before its controller has synced it.
    pub fn created(&self, deployment: &Deployment) -> ReplicaSet {
        // It consists of values that were read from the server, so it can be decoded.
        serde_json::from_value(self.manifest(deployment)).unwrap_or_default()
    }

    pub fn manifest(&self, deployment: &Deployment) -> Value {
        let kind = ReplicaSet::TYPE;
        let spec = &deployment.spec;
        let labels = spec.template.metadata.labels.with(POD_TEMPLATE_HASH, &self.hash);
        let mut template = spec.template.raw().to_value();
        template["metadata"]["labels"] = json!(labels);
        let mut selector = spec.selector.clone().unwrap_or_default();
        selector.match_labels = selector.match_labels.with(POD_TEMPLATE_HASH, &self.hash);
        json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {
                "name": self.name,
                "namespace": deployment.metadata.namespace,
                "labels": labels,
                "annotations": self.annotations,
                "ownerReferences": [controller_reference(deployment)],
            },
            "spec": {
                "replicas": self.replicas,
                "minReadySeconds": spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        })
    }
}

/// Creates or updates the ReplicaSet of the current template, if needed.
pub fn ensure<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    match fleet.new {
        Some(_) => revise(view, fleet).into_iter().collect(),
        None => vec![Action::Create(NewReplicaSet::of(view, fleet))],
    }
}

/// Updates the existing ReplicaSet of the current template, if needed: its revision, the annotations of the user, and
/// `minReadySeconds`.
pub fn revise<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Option<Action<'a>> {
    let set = fleet.new?;
    let held = &set.metadata.annotations;
    let annotations = revised(view.deployment, held, next_revision(fleet));
    let min_ready_seconds = view.deployment.spec.min_ready_seconds;
    (annotations != *held || min_ready_seconds != set.spec.min_ready_seconds).then_some(Action::Revise {
        set,
        annotations,
        min_ready_seconds,
    })
}

/// The name of a ReplicaSet, with the name of the Deployment cut to the longest valid length.
fn name(deployment: &str, hash: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(hash.len() + 1);
    // Names are ASCII, so a cut is always between characters.
    let start = deployment.get(..room).unwrap_or(deployment);
    format!("{start}-{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_within_the_longest_allowed() {
        let hash = "7d4f8b9c6x";
        assert_eq!(name("web", hash), "web-7d4f8b9c6x");
        let long = name(&"d".repeat(253), hash);
        assert_eq!(long.len(), 253);
        assert!(long.ends_with("d-7d4f8b9c6x"));
    }
}
