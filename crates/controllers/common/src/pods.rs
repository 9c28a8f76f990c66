//! Pods made from a template and taken away again, with the events that users know.

use flyball_api::pod::Pod;
use flyball_api::{Key, OwnerReference, PartialObject, PodTemplate, Resource, Timestamp};
use flyball_client::Error;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::plan::Body;
use flyball_runtime::{Context, Event, Message, Refusals, Write, exactly};
use serde_json::{Value, json};
use smol_str::{SmolStr, ToSmolStr};
use std::sync::Arc;
use std::time::Duration;

pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
/// A pod could not be created.
pub const FAILED_CREATE: &str = "FailedCreate";
pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
/// A pod could not be deleted.
pub const FAILED_DELETE: &str = "FailedDelete";

/// Longest name a pod can be given with room for the random end.
const LONGEST_PREFIX: usize = 253;

/// Why no pod is created from a template without labels: no selector would find it again.
pub const NO_LABELS: &str = "unable to create pods, no labels";

/// Why a pod was not made or not deleted.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// The template has no labels, so nothing could ever find the pod again.
    #[error("unable to create pods, no labels")]
    NoLabels,
    /// The pod could not be created.
    #[error("{0}")]
    Create(#[source] Error),
    /// The pod could not be deleted.
    #[error("unable to delete pods: {0}")]
    Delete(#[source] Error),
}

impl PodError {
    /// The API server's error behind this one.
    pub fn api(self) -> Option<Error> {
        match self {
            Self::NoLabels => None,
            Self::Create(error) | Self::Delete(error) => Some(error),
        }
    }
}

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
        .accept(Refusals::NAMESPACE_TERMINATING)
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

/// Creates a pod for `about` and tells of it. Of the pod as the server made it, only metadata is returned.
pub async fn create(
    cx: &Context,
    events: &Recorder,
    owner: &Key,
    about: &ObjectRef,
    body: &Value,
    why: &str,
) -> Result<PartialObject, PodError> {
    let labels = body.pointer("/metadata/labels").and_then(Value::as_object);
    if labels.is_none_or(|labels| labels.is_empty()) {
        return Err(PodError::NoLabels);
    }
    match cx.writer(owner).create_dynamic(&Pod::TYPE, Some(&owner.namespace), body, why).await {
        Ok(PartialObject { metadata }) => {
            events.normal(about, SUCCESSFUL_CREATE, format!("Created pod: {}", metadata.name));
            Ok(PartialObject { metadata })
        }
        Err(error) => {
            // In a namespace that is going away every creation fails; that is no news.
            if !is_namespace_going(&error) {
                events.warning(about, FAILED_CREATE, format!("Error creating: {error}"));
            }
            Err(PodError::Create(error))
        }
    }
}

/// Deletes a pod of `about` and tells of it. One that is gone already is no failure.
pub async fn delete(
    cx: &Context,
    events: &Recorder,
    owner: &Key,
    about: &ObjectRef,
    pod: &Pod,
    why: &str,
) -> Result<(), PodError> {
    let meta = &pod.metadata;
    match cx.writer(owner).delete::<Pod>(&meta.key(), exactly(meta), why).await {
        Ok(()) => {
            events.normal(about, SUCCESSFUL_DELETE, format!("Deleted pod: {}", meta.name));
            Ok(())
        }
        // A conflict says that another pod has taken its name: ours is gone.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => {
            events.warning(about, FAILED_DELETE, format!("Error deleting: {error}"));
            Err(PodError::Delete(error))
        }
    }
}

/// Whether a creation failed because the namespace is being deleted.
pub fn is_namespace_going(error: &Error) -> bool {
    error.has_cause("NamespaceTerminating")
}

/// How long until the next of these pods has been ready for long enough; `None` when none is on its way.
pub fn next_available(pods: &[Arc<Pod>], min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let waits = pods.iter().filter_map(|pod| {
        let due = pod.available_at(min_ready_seconds)?;
        Duration::try_from(due.duration_since(now)).ok().filter(|wait| !wait.is_zero())
    });
    waits.min()
}
