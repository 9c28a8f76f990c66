//! Pod templates: raw JSON to copy, beside the few fields that controllers read from it.

mod hash;
mod revision;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::intern::{self, SharedList};
use crate::pod::RestartPolicy;
use crate::taint::Toleration;
use crate::{Labels, RawJson, WithRaw, labels};

/// A `spec.template`: what is read is parsed, all of it is kept.
pub type PodTemplate = WithRaw<TemplateFields>;

/// What controllers read from a template.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateFields {
    /// Labels and annotations of the pods to make.
    pub metadata: TemplateMeta,
    pub spec: TemplateSpec,
    /// See [`PodTemplate::revision_digest`]; made when it is first asked for.
    #[serde(skip)]
    revision: OnceLock<u128>,
}

/// The label by which a Deployment's ReplicaSets differ although their templates are the same.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

impl PodTemplate {
    /// Whether both make the same pods, but for their [`POD_TEMPLATE_HASH`]. Amounts are compared by value, so
    /// that `1Gi` and `1024Mi` make no difference.
    pub fn makes_same_pods(&self, other: &Self) -> bool {
        self.revision_digest() == other.revision_digest()
    }

    /// Stands for the template without its [`POD_TEMPLATE_HASH`]: equal for templates of one revision.
    pub fn revision_digest(&self) -> u128 {
        *self.revision.get_or_init(|| revision::digest(self.raw()))
    }

    /// Upstream's hash of the template, for names and labels. After a collision of names, the count of collisions gives
    /// another one.
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

/// The fields of a template's pod spec that are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateSpec {
    #[serde(deserialize_with = "intern::text")]
    pub node_name: SmolStr,
    /// Labels a node must have.
    pub node_selector: Labels,
    pub affinity: Option<RawJson>,
    pub tolerations: SharedList<Toleration>,
    pub restart_policy: RestartPolicy,
    pub host_network: bool,
}
