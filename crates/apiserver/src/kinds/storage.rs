//! Volumes and claims: phases, the finalizers that protect them while in use, and the two fields for the data source.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::apps::prints;
use super::json::Json;
use super::print;
use super::shape::format_time;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Cx, Strategy, Subresource};

/// `v1` PersistentVolume.
pub(super) struct Volume;
/// `v1` PersistentVolumeClaim.
pub(super) struct Claim;
/// `storage.k8s.io/v1` VolumeAttributesClass.
pub(super) struct AttributesClass;

/// Only for PersistentVolumes: a VolumeAttachment may contain the same spec, which gets no defaults.
pub(super) fn default_volume(volume: &mut Value) {
    if !volume.at("spec").is_object() {
        return;
    }
    if volume.text("spec.persistentVolumeReclaimPolicy").is_empty() {
        volume.put("spec.persistentVolumeReclaimPolicy", "Retain");
    }
    volume.or_put("spec.volumeMode", "Filesystem");
}

/// The default lifecycle mode is `Persistent`.
pub(super) fn default_csi_driver_spec(spec: &mut Value) {
    spec.or_put("volumeLifecycleModes", json!(["Persistent"]));
}

/// Protects an object in use by a finalizer, as upstream's admission plugin does.
fn protect(object: &mut Value, finalizer: &str) {
    object.or_put("metadata.finalizers", json!([]));
    if let Some(Value::Array(list)) = object.at_mut("metadata.finalizers")
        && !list.iter().any(|present| present == finalizer)
    {
        list.push(finalizer.into());
    }
}

impl Strategy for Volume {
    fn prepare_create(&self, cx: &Cx<'_>, volume: &mut Value) {
        let since = format_time(cx.now, 0);
        volume.put("status", json!({"phase": "Pending", "lastPhaseTransitionTime": since}));
        protect(volume, "kubernetes.io/pv-protection");
    }

    fn prepare_subresource_update(&self, cx: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        if sub != Subresource::Status {
            return;
        }
        let path = "status.lastPhaseTransitionTime";
        let same_phase = new.at("status.phase") == old.at("status.phase");
        if same_phase && !new.has(path) && old.has(path) {
            new.put(path, old.at(path).clone());
        } else if !same_phase && (!new.has(path) || new.at(path) == old.at(path)) {
            new.put(path, format_time(cx.now, 0));
        }
    }

    fn validate_create(&self, volume: &Value) -> Vec<Cause> {
        validate::storage::volume(volume, None)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::storage::volume(new, Some(old))
    }

    fn warnings(&self, volume: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        if volume.text("spec.persistentVolumeReclaimPolicy") == "Recycle" {
            let text = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the \
                        recommended approach is to use dynamic provisioning.";
            warnings.push(text.to_owned());
        }
        warnings
    }

    prints!(print::VOLUME);
}

impl Strategy for Claim {
    fn prepare_create(&self, _: &Cx<'_>, claim: &mut Value) {
        claim.put("status", json!({"phase": "Pending"}));
        unite_data_sources(claim);
        protect(claim, "kubernetes.io/pvc-protection");
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, _: &Value) {
        unite_data_sources(new);
    }

    fn validate_create(&self, claim: &Value) -> Vec<Cause> {
        validate::storage::claim(claim, None)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::storage::claim(new, Some(old))
    }

    fn warnings(&self, claim: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        let annotation = "volume.beta.kubernetes.io/storage-class";
        if claim.entry("metadata.annotations", annotation).is_some() {
            let instead = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            warnings.push(format!("metadata.annotations[{annotation}]: {instead}"));
        }
        warnings
    }

    prints!(print::CLAIM);
}

/// Makes `dataSource` and the newer `dataSourceRef` equal if only one is set.
fn unite_data_sources(claim: &mut Value) {
    let (old, new) = (claim.at("spec.dataSource").clone(), claim.at("spec.dataSourceRef").clone());
    if old.is_object() && new.is_null() {
        claim.put("spec.dataSourceRef", old);
    } else if new.is_object() && old.is_null() && !new.has("namespace") {
        claim.put("spec.dataSource", new);
    }
}

impl Strategy for AttributesClass {
    fn prepare_create(&self, _: &Cx<'_>, class: &mut Value) {
        protect(class, "kubernetes.io/vac-protection");
    }

    fn validate_create(&self, class: &Value) -> Vec<Cause> {
        validate::storage::attributes_class(class, None)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::storage::attributes_class(new, Some(old))
    }

    prints!(print::ATTRIBUTES_CLASS);
}
