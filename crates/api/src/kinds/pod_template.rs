//! Pod templates: raw JSON to copy, beside the few fields that controllers read from it.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    /// The part of the pod spec that decides where and how pods run.
    pub spec: TemplateSpec,
    /// See [`PodTemplate::revision_digest`]; made when it is first asked for.
    #[serde(skip)]
    revision: OnceLock<u128>,
}

/// The label by which a Deployment's ReplicaSets differ although their templates are the same.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

impl PodTemplate {
    /// Stands for the template without its [`POD_TEMPLATE_HASH`]: equal for templates of one revision.
    pub fn revision_digest(&self) -> u128 {
        *self.revision.get_or_init(|| {
            if !self.metadata.labels.contains_key(POD_TEMPLATE_HASH) {
                return self.raw().digest();
            }
            let mut template = self.raw().to_value();
            if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
                labels.remove(POD_TEMPLATE_HASH);
            }
            // The server leaves out what is empty.
            drop_if_empty(&mut template, "/metadata", "labels");
            drop_if_empty(&mut template, "", "metadata");
            RawJson::from_value(&template).digest()
        })
    }
}

fn drop_if_empty(value: &mut Value, path: &str, field: &str) {
    let Some(parent) = value.pointer_mut(path).and_then(Value::as_object_mut) else { return };
    if parent.get(field).and_then(Value::as_object).is_some_and(|object| object.is_empty()) {
        parent.remove(field);
    }
}

/// Metadata of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateMeta {
    /// Labels of the pods to make.
    #[serde(deserialize_with = "labels::interned")]
    pub labels: Labels,
    /// Annotations of the pods to make.
    pub annotations: Labels,
}

/// The fields of a template's pod spec that are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateSpec {
    /// A node fixed beforehand.
    #[serde(deserialize_with = "intern::text")]
    pub node_name: SmolStr,
    /// Labels a node must have.
    pub node_selector: Labels,
    /// Scheduling rules as served.
    pub affinity: Option<RawJson>,
    /// Taints borne.
    pub tolerations: SharedList<Toleration>,
    /// What happens to containers that exit.
    pub restart_policy: RestartPolicy,
    /// Whether pods share the node's network.
    pub host_network: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(json: Value) -> PodTemplate {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_revision_is_the_template_without_its_hash() {
        let spec = json!({"containers": [{"name": "a"}]});
        let plain = template(json!({"metadata": {"labels": {"app": "web"}}, "spec": spec}));
        let hashed =
            template(json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "1"}}, "spec": spec}));
        let other = template(json!({"metadata": {"labels": {"app": "api"}}, "spec": spec}));
        let bare = template(json!({"spec": spec}));
        let bare_hashed = template(json!({"metadata": {"labels": {"pod-template-hash": "1"}}, "spec": spec}));
        assert_eq!(plain.revision_digest(), hashed.revision_digest());
        assert_eq!(bare.revision_digest(), bare_hashed.revision_digest());
        assert_ne!(plain.revision_digest(), other.revision_digest());
        assert_ne!(plain.raw(), hashed.raw());
    }
}
