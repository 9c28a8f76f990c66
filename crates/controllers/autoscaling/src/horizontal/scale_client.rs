//! The scale of a workload: found by discovery and read live.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ResourceType, Selector};
use flyball_client::{Client, Discovery, Error};
use flyball_common::served::Served;
use flyball_runtime::Chain;
use serde::Deserialize;
use serde_json::Value;

use super::mapping::{GroupKind, resources};

/// The shortest time between two discoveries, however many kinds are not found.
const DISCOVERED_AT_MOST_EVERY: Duration = Duration::from_secs(5);
/// The age at which a discovery is replaced by the next lookup.
const DISCOVERED_AT_LEAST_EVERY: Duration = Duration::from_secs(30);

pub(super) struct ScaleClient {
    client: Client,
    served: Served,
}

/// A scale as it was read.
#[derive(Debug, Clone)]
pub struct Scale {
    pub resource: ResourceType,
    /// `spec.replicas`.
    pub replicas: i32,
    pub status_replicas: i32,
    /// The selector of its pods.
    pub selector: String,
    /// The whole Scale object.
    pub body: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    spec: WireSpec,
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSpec {
    replicas: i32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireStatus {
    replicas: i32,
    selector: String,
}

impl ScaleClient {
    pub(super) fn new(client: Client) -> Self {
        Self { served: Served::new(client.clone()), client }
    }

    /// The resources with objects of a kind.
    pub(super) async fn resources(&self, wanted: GroupKind<'_>) -> Result<Vec<ResourceType>, String> {
        let (mut served, age) = self.served.known().await.map_err(|error| Chain(&error).to_string())?;
        let mut found = owned(&served, wanted);
        let is_old = |limit| age.is_some_and(|age| age >= limit);
        if is_old(DISCOVERED_AT_LEAST_EVERY) || (found.is_err() && is_old(DISCOVERED_AT_MOST_EVERY)) {
            served = self.served.discover().await.map_err(|error| Chain(&error).to_string())?;
            found = owned(&served, wanted);
        }
        found
    }

    /// The scale of an object of the first of these resources that has one of that name.
    pub(super) async fn read(&self, resources: &[ResourceType], key: &Key) -> Result<Scale, String> {
        let mut first = None;
        for resource in resources {
            match self.read_one(resource, key).await {
                Ok(scale) => return Ok(scale),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| "unrecognized resource".to_owned()))
    }

    async fn read_one(&self, resource: &ResourceType, key: &Key) -> Result<Scale, String> {
        let read = self.client.get_as::<Value>(resource, key, Some("scale")).await;
        let body = read.map_err(|error| quote(&error, resource))?;
        let unreadable = |error: String| {
            format!(
                "received an object from a /scale endpoint which was not convertible to autoscaling Scale: {error}"
            )
        };
        let wire = Wire::deserialize(&body).map_err(|error| unreadable(error.to_string()))?;
        Ok(Scale {
            resource: resource.clone(),
            replicas: wire.spec.replicas,
            status_replicas: wire.status.replicas,
            selector: normal(&wire.status.selector).map_err(unreadable)?,
            body,
        })
    }
}

fn owned(served: &Arc<Discovery>, wanted: GroupKind<'_>) -> Result<Vec<ResourceType>, String> {
    resources(served, wanted).map(|found| found.into_iter().cloned().collect())
}

/// A selector in the form that it has in a spec, which cannot express all that a string can.
///
/// Upstream: client-go `scale/scheme/autoscalingv1/conversion.go`.
pub(super) fn normal(selector: &str) -> Result<String, String> {
    if selector.is_empty() {
        return Ok(String::new());
    }
    let problem = |error| format!("failed to parse target selector: {error}");
    let parsed = Selector::parse(selector)
        .map_err(|error| problem(format!("couldn't parse the selector string \"{selector}\": {error}")))?;
    let object = parsed.to_object().map_err(|error| problem(error.to_string()))?;
    object.compile().map(|selector| selector.to_string()).map_err(|error| problem(error.to_string()))
}

impl Scale {
    /// An error of the scale subresource, as upstream's events quote it.
    pub(super) fn quote(&self, error: &Error) -> String {
        quote(error, &self.resource)
    }
}

fn quote(error: &Error, resource: &ResourceType) -> String {
    let text = Chain(error).to_string();
    // Upstream: client-go's scale client does not set the group, so it is missing in errors without a reason.
    match error.has_cause("UnexpectedServerResponse") && !resource.group.is_empty() {
        true => text.replace(&resource.to_string(), &resource.plural),
        false => text,
    }
}
