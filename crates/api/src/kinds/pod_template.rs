//! Pod templates: the raw JSON, which is copied into pods, and the few fields that controllers read.

mod hash;
mod revision;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::intern::{self, SharedList};
use crate::pod::RestartPolicy;
use crate::taint::Toleration;
use crate::{Labels, RawJson, WithRaw, labels};

/// A `spec.template`: the raw JSON with the parsed fields.
pub type PodTemplate = WithRaw<TemplateFields>;

/// The fields that controllers read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateFields {
    pub metadata: TemplateMeta,
    pub spec: TemplateSpec,
    /// See [`PodTemplate::revision_digest`]; computed when it is first needed.
    #[serde(skip)]
    revision: OnceLock<u128>,
}

/// The label that a Deployment adds to the template of each of its ReplicaSets.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

impl PodTemplate {
    /// Whether both templates are equal, except for the label [`POD_TEMPLATE_HASH`]. Quantities are compared by value: `1Gi`
    /// equals `1024Mi`.
    pub fn makes_same_pods(&self, other: &Self) -> bool {
        self.revision_digest() == other.revision_digest()
    }

    /// A digest of the template without the label [`POD_TEMPLATE_HASH`].
    pub fn revision_digest(&self) -> u128 {
        *self.revision.get_or_init(|| revision::digest(self.raw()))
    }

    /// Upstream's hash of the template, for names and labels. `collisions` (`status.collisionCount`) changes it after a collision
    /// of names.
    pub fn hash(&self, collisions: Option<i32>) -> String {
        hash::compute_hash(&self.raw().to_value(), collisions)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateMeta {
    #[serde(deserialize_with = "labels::interned")]
    pub labels: Labels,
    pub annotations: Labels,
}

/// The fields of the pod spec that controllers read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateSpec {
    #[serde(deserialize_with = "intern::text")]
    pub node_name: SmolStr,
    pub node_selector: Labels,
    pub affinity: Option<RawJson>,
    pub tolerations: SharedList<Toleration>,
    pub restart_policy: RestartPolicy,
    pub host_network: bool,
}
