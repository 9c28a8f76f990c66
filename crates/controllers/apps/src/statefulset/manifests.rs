//! The bodies of new pods and claims, and of repaired pods. Pure.

use flyball_api::{PersistentVolumeClaim, PodTemplate, Resource, StatefulSet};
use flyball_common::adoption::controller_reference;
use flyball_common::pods;
use serde_json::{Value, json};

use super::identity::{POD_INDEX, POD_NAME, REVISION, claim_name, pod_name};

/// The pod with this ordinal, from the template of a revision.
pub fn pod(set: &StatefulSet, template: &PodTemplate, revision: &str, ordinal: i32) -> Value {
    let mut pod = pods::from_template(template, &set.metadata.name, &controller_reference(set));
    identify(set, &mut pod, ordinal);
    pod["metadata"]["labels"][REVISION] = revision.into();
    // These fields are immutable, so they are not part of a repair.
    pod["spec"]["hostname"] = pod_name(set, ordinal).as_str().into();
    // Without a Service the pod has no subdomain, whatever the template says.
    if !set.spec.service_name.is_empty() {
        pod["spec"]["subdomain"] = set.spec.service_name.as_str().into();
    } else if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("subdomain");
    }
    equip(set, &mut pod, ordinal);
    pod
}

/// Sets the name and labels of the ordinal.
pub fn identify(set: &StatefulSet, pod: &mut Value, ordinal: i32) {
    let name = pod_name(set, ordinal);
    let metadata = &mut pod["metadata"];
    metadata["name"] = name.as_str().into();
    metadata["namespace"] = set.metadata.namespace.as_str().into();
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"][POD_NAME] = name.as_str().into();
    metadata["labels"][POD_INDEX] = ordinal.to_string().into();
}

/// Adds the claims to the volumes of a pod, replacing volumes of the same name.
pub fn equip(set: &StatefulSet, pod: &mut Value, ordinal: i32) {
    let templates = &set.spec.volume_claim_templates;
    if templates.is_empty() {
        return;
    }
    let claimed = templates.iter().map(|template| {
        let name = &template.metadata.name;
        json!({"name": name, "persistentVolumeClaim": {"claimName": claim_name(set, name, ordinal)}})
    });
    let is_claimed =
        |volume: &Value| templates.iter().any(|template| volume["name"] == template.metadata.name.as_str());
    let others = pod["spec"]["volumes"].as_array().into_iter().flatten().filter(|volume| !is_claimed(volume));
    let volumes: Vec<Value> = claimed.chain(others.cloned()).collect();
    pod["spec"]["volumes"] = volumes.into();
}

/// The claims of the pod with this ordinal, one for each template, with the labels of the selector.
pub fn claims(set: &StatefulSet, ordinal: i32) -> Vec<Value> {
    let selected = set.spec.selector.iter().flat_map(|selector| selector.match_labels.iter());
    let claim = |template: Value, name: &str| {
        let mut metadata = template.get("metadata").cloned().unwrap_or_default();
        metadata["name"] = claim_name(set, name, ordinal).as_str().into();
        metadata["namespace"] = set.metadata.namespace.as_str().into();
        for (key, value) in selected.clone() {
            metadata["labels"][key] = value.into();
        }
        let kind = PersistentVolumeClaim::TYPE;
        let spec = template.get("spec").cloned().unwrap_or_default();
        json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec})
    };
    let templates = set.spec.volume_claim_templates.iter();
    templates.map(|template| claim(template.raw().to_value(), &template.metadata.name)).collect()
}
