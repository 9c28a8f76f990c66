//! The ReplicaSet of the present template: its name, its hash, what it starts with, and what an existing one
//! is brought up to date with.

use flyball_api::pod_template::POD_TEMPLATE_HASH;
use flyball_api::{Deployment, Labels, ReplicaSet, Resource};
use flyball_common::claim::controller_reference;
use serde_json::{Value, json};

use super::annotations::with_sizes;
use super::decision::{Action, View};
use super::fleet::Fleet;
use super::history::{next_revision, revised};
use super::rollout;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// A ReplicaSet that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReplicaSet {
    /// Its name: that of the Deployment and the hash.
    pub name: String,
    /// What tells its pods from those of other templates.
    pub hash: String,
    /// How many pods it begins with.
    pub replicas: i64,
    pub annotations: Labels,
}

impl NewReplicaSet {
    /// What the ReplicaSet of the present template will be.
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

    /// The set before its controller has looked at it.
    pub fn created(&self, deployment: &Deployment) -> ReplicaSet {
        // It is made of what was read from the server, so it can be read again.
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

/// What makes sure that the ReplicaSet of the present template exists and is up to date.
pub fn ensure<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    match fleet.new {
        Some(_) => revise(view, fleet).into_iter().collect(),
        None => vec![Action::Create(NewReplicaSet::of(view, fleet))],
    }
}

/// What brings the existing ReplicaSet of the present template up to date, if anything does: its revision, the
/// user's notes, and the time that pods must be ready.
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

/// The name of a ReplicaSet, the Deployment's part cut so that the whole is a valid one.
fn name(deployment: &str, hash: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(hash.len() + 1);
    // Names are ASCII; were they not, a cut within a character would be refused here and by the server.
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
