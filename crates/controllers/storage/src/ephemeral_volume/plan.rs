//! Which claim a volume needs. Pure.

use flyball_api::pod::{Pod, Volume, VolumeSource};
use flyball_api::{Key, PersistentVolumeClaim, RawJson, Resource};
use serde_json::{Value, json};

use crate::usage::{is_made_for, made_name};

/// What is to be done for one volume.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Its claim is to be made.
    Create(Value),
    /// Its name is taken by a claim that is not the pod's; a sentence for the pod.
    Refuse(String),
}

/// The key of the claim that an ephemeral volume has, or is to have.
pub fn claim_key(pod: &Pod, volume: &Volume) -> Option<Key> {
    let is_ephemeral = matches!(volume.source, VolumeSource::Ephemeral(_));
    is_ephemeral.then(|| Key::new(pod.metadata.namespace.as_str(), made_name(&pod.metadata, volume)))
}

/// What a volume needs, given the claim of its name if there is one.
pub fn plan(pod: &Pod, volume: &Volume, claim: Option<&PersistentVolumeClaim>) -> Option<Action> {
    let VolumeSource::Ephemeral(source) = &volume.source else { return None };
    match claim {
        None => Some(Action::Create(manifest(pod, volume, source))),
        Some(claim) if is_made_for(claim, &pod.metadata) => None,
        Some(claim) => {
            let (pod, claim) = (pod.metadata.key(), claim.metadata.key());
            Some(Action::Refuse(format!("PVC {claim} was not created for pod {pod} (pod is not owner)")))
        }
    }
}

/// The claim: labels, annotations and spec of the template, and the pod as its owner.
fn manifest(pod: &Pod, volume: &Volume, source: &RawJson) -> Value {
    let template = &source.to_value()["volumeClaimTemplate"];
    let kind = PersistentVolumeClaim::TYPE;
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": made_name(&pod.metadata, volume),
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [{
                "apiVersion": Pod::TYPE.api_version(),
                "kind": Pod::TYPE.kind,
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    })
}
