//! Which claims the ephemeral volumes of a pod need. Pure.

use std::sync::Arc;

use flyball_api::pod::{Pod, Volume, VolumeSource};
use flyball_api::{Key, PersistentVolumeClaim, RawJson, Resource};
use flyball_runtime::{Effect, Event, Message, Plan, Waiting, Write};
use serde_json::{Value, json};

use crate::usage::{is_made_for, made_name};

const FAILED_BINDING: &str = "FailedBinding";

/// Everything that the decision depends on.
pub struct View<'a> {
    pub pod: &'a Pod,
    /// The claims that have the names of those that the pod needs.
    pub claims: &'a [Arc<PersistentVolumeClaim>],
}

/// The key of the claim that an ephemeral volume has, or is to have.
pub fn claim_key(pod: &Pod, volume: &Volume) -> Option<Key> {
    let is_ephemeral = matches!(volume.source, VolumeSource::Ephemeral(_));
    is_ephemeral.then(|| Key::new(pod.metadata.namespace.as_str(), made_name(&pod.metadata, volume)))
}

/// Creates the claims that are missing, volume by volume. A claim of that name which does not belong to the pod is a failure.
pub fn plan(view: &View<'_>) -> Plan {
    let (mut effects, mut waiting) = (vec![], None);
    for volume in view.pod.spec.volumes.iter().filter(|_| !view.pod.metadata.is_deleting()) {
        let (Some(key), VolumeSource::Ephemeral(source)) = (claim_key(view.pod, volume), &volume.source)
        else {
            continue;
        };
        match view.claims.iter().find(|claim| claim.metadata.name == key.name) {
            None => effects.push(create(view.pod, volume, key, source).into()),
            Some(claim) if is_made_for(claim, &view.pod.metadata) => {}
            Some(_) => {
                let pod = view.pod.metadata.key();
                let why = format!("PVC {key} was not created for pod {pod} (pod is not owner)");
                let message = format!("ephemeral volume {}: {why}", volume.name);
                effects.extend([Event::warning(FAILED_BINDING, message).into(), Effect::Fail(why)]);
                let until = "to be deleted, as it does not belong to the pod";
                waiting = waiting.or(Some(Waiting::on::<PersistentVolumeClaim>(&key, until)));
            }
        }
    }
    Plan::of(effects).waiting_for(waiting)
}

fn create(pod: &Pod, volume: &Volume, key: Key, source: &RawJson) -> Write {
    let failure = format!("ephemeral volume {}: create PVC {}: ", volume.name, key.name);
    Write::create::<PersistentVolumeClaim>(key, manifest(pod, volume, source))
        .why("an ephemeral volume of the pod needs it")
        .on_failure(Event::warning(FAILED_BINDING, Message::ThenError(failure)))
}

/// The claim: labels, annotations and spec of the template, with the pod as its owner.
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
