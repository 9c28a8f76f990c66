//! Object metadata, complete except for `managedFields`, which the server keeps if they are not sent.

use serde::{Deserialize, Deserializer, Serialize};
use smol_str::SmolStr;

use crate::de::{null_default, skip};
use crate::intern::{Interner, Repeats, SharedList};
use crate::protobuf::{self, Message};
use crate::time::{self, Timestamp};
use crate::{Key, Labels, Object, ResourceVersion, Uid, intern, labels};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Unique within resource and namespace.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
    /// The prefix from which the server made the name.
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub generate_name: SmolStr,
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    /// The identity of this incarnation.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// The version that was read.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "ResourceVersion::is_unknown")]
    pub resource_version: ResourceVersion,
    /// Counts changes of the spec.
    #[serde(skip_serializing_if = "skip::zero")]
    pub generation: i64,
    /// When it was created.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// When the grace period of its deletion ends; `None` if it is not being deleted.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "labels::interned", skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub annotations: Labels,
    /// The objects this one depends on. Siblings share one list.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub owner_references: SharedList<OwnerReference>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub finalizers: Box<[SmolStr]>,
}

impl ObjectMeta {
    pub fn key(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner reference with `controller: true`.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.is_controller())
    }

    /// Whether the object with this uid controls this one.
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.controller().is_some_and(|owner| owner.uid == *uid)
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }
}

/// A dependency on another object of the same namespace, or on a cluster-scoped one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version of the owner.
    #[serde(deserialize_with = "intern::text")]
    pub api_version: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub kind: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    /// The owner is identified by its uid; the name is informational.
    pub uid: Uid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl Repeats for OwnerReference {
    fn table() -> &'static Interner<[Self]> {
        static TABLE: Interner<[OwnerReference]> = Interner::new();
        &TABLE
    }
}

impl OwnerReference {
    /// Whether this is a controller reference.
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }

    /// The API group of the owner: empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// An object of any kind reduced to its type and metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialObject {
    pub metadata: ObjectMeta,
}

impl Object for PartialObject {
    const IS_METADATA: bool = true;

    fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }

    fn from_protobuf(message: &'static Message, bytes: &[u8]) -> serde_json::Result<Self> {
        protobuf::decode(message, bytes)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// `#[serde(deserialize_with = "meta::known_annotations")]`: metadata without the annotations that no controller
/// reads. Only for kinds that are never sent back whole.
pub(crate) fn known_annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = ObjectMeta::deserialize(deserializer)?;
    if meta.annotations.iter().any(|(key, _)| !is_known_annotation(key)) {
        meta.annotations = meta.annotations.filtered(is_known_annotation);
    }
    Ok(meta)
}

/// Annotations of Kubernetes have one of two domains. The one of `kubectl apply` is large, and no controller reads it.
fn is_known_annotation(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    (domain.ends_with("kubernetes.io") || domain.ends_with("k8s.io"))
        && key != "kubectl.kubernetes.io/last-applied-configuration"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn survives_a_round_trip_without_managed_fields() {
        let served = json!({
            "name": "web-1", "generateName": "web-", "namespace": "default",
            "uid": "7b0f3a52-93ab-4c1e-8d0f-0123456789ab", "resourceVersion": "17", "generation": 2,
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:05:05Z",
            "deletionGracePeriodSeconds": 0,
            "labels": {"app": "web"}, "annotations": {"a": "b"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "8b0f3a52-93ab-4c1e-8d0f-0123456789ab", "controller": true, "blockOwnerDeletion": true}],
            "finalizers": ["x/y"],
        });
        let mut with_managed = served.clone();
        with_managed["managedFields"] = json!([{"manager": "kubelet"}]);
        let meta: ObjectMeta = serde_json::from_value(with_managed).unwrap();
        assert_eq!(serde_json::to_value(&meta).unwrap(), served);
        assert!(meta.is_deleting() && meta.has_finalizer("x/y"));
        assert_eq!(meta.controller().unwrap().group(), "apps");
    }

    #[test]
    fn nulls_and_absent_fields_are_defaults_and_are_not_sent() {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "name": "a", "creationTimestamp": null, "labels": null, "ownerReferences": null, "finalizers": null,
        }))
        .unwrap();
        assert_eq!(serde_json::to_value(&meta).unwrap(), json!({"name": "a"}));
    }

    #[test]
    fn only_annotations_that_controllers_know_are_kept_where_asked_for() {
        #[derive(Deserialize)]
        struct Slim {
            #[serde(deserialize_with = "known_annotations")]
            metadata: ObjectMeta,
        }
        let slim: Slim = serde_json::from_value(json!({"metadata": {"annotations": {
            "controller.kubernetes.io/pod-deletion-cost": "5", "batch.k8s.io/x": "", "example.com/y": "1", "z": "2",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        }}}))
        .unwrap();
        let kept: Vec<_> = slim.metadata.annotations.iter().map(|(k, _)| k).collect();
        assert_eq!(kept, ["batch.k8s.io/x", "controller.kubernetes.io/pod-deletion-cost"]);
    }
}
