//! Creation and deletion of pods from a template, with the events that users know.

use flyball_api::pod::Pod;
use flyball_api::{Key, OwnerReference, PodTemplate, Timestamp};
use flyball_runtime::plan::Body;
use flyball_runtime::{ErrorKinds, Event, Message, Write};
use serde_json::{Value, json};
use smol_str::{SmolStr, ToSmolStr};
use std::sync::Arc;
use std::time::Duration;

pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
pub const FAILED_CREATE: &str = "FailedCreate";
pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
pub const FAILED_DELETE: &str = "FailedDelete";

/// The longest prefix of a generated name.
const LONGEST_PREFIX: usize = 253;

/// Why no pod is created from a template without labels: no selector would find it again.
pub const NO_LABELS: &str = "unable to create pods, no labels";

/// The pod that a template describes: its labels, annotations, finalizers and spec, under a generated name.
pub fn from_template(template: &PodTemplate, owner_name: &str, owner: &OwnerReference) -> Value {
    let template = template.raw().to_value();
    let mut metadata = json!({"generateName": name_prefix(owner_name), "ownerReferences": [owner]});
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// What generated names of pods begin with: the owner's name and a dash, where that is not too long.
pub fn name_prefix(owner: &str) -> String {
    if owner.len() < LONGEST_PREFIX { format!("{owner}-") } else { owner.to_owned() }
}

/// The creation of a pod of `owner` from a body that [`from_template`] made. In a namespace that is being deleted every
/// creation fails, which is not worth an event or a retry.
pub fn creation(owner: &Key, body: Body, why: &SmolStr) -> Write {
    let key = Key::new(owner.namespace.as_str(), format!("{}*", name_prefix(&owner.name)));
    Write::create::<Pod>(key, body)
        .why(why)
        .ignore(ErrorKinds::NAMESPACE_TERMINATING)
        .on_success(Event::normal(SUCCESSFUL_CREATE, Message::ThenName("Created pod: ".into())))
        .on_failure(Event::warning(FAILED_CREATE, Message::ThenError("Error creating: ".into())))
}

/// The deletion of exactly this pod.
pub fn deletion(pod: &Pod, why: impl ToSmolStr) -> Write {
    Write::delete(pod)
        .why(why)
        .failure_prefix("unable to delete pods: ")
        .on_success(Event::normal(SUCCESSFUL_DELETE, format!("Deleted pod: {}", pod.metadata.name)))
        .on_failure(Event::warning(FAILED_DELETE, Message::ThenError("Error deleting: ".into())))
}

/// How long until the next of these pods has been ready for long enough; `None` if none will be.
pub fn next_available(pods: &[Arc<Pod>], min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let waits = pods.iter().filter_map(|pod| {
        let due = pod.available_at(min_ready_seconds)?;
        Duration::try_from(due.duration_since(now)).ok().filter(|wait| !wait.is_zero())
    });
    waits.min()
}
