//! The scale of a workload: found by discovery, read and written live.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Object, ObjectMeta, ResourceType, Selector};
use flyball_client::{Client, Discovery, Error};
use flyball_common::served::Served;
use flyball_runtime::{Chain, Writer};
use serde::Deserialize;
use serde_json::Value;

use super::mapping::{GroupKind, resources};

/// What the server serves is not asked for more often than this, however many kinds are not found in it.
const ASKED_AT_MOST_EVERY: Duration = Duration::from_secs(5);
/// And never less often than this while there is something to look for.
const ASKED_AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// How often a step is tried when others change the workload at the same time, and how long to wait in between.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

pub(super) struct Scales {
    client: Client,
    served: Served,
}

/// A scale as it was read.
#[derive(Debug, Clone)]
pub(super) struct Scaled {
    pub(super) resource: ResourceType,
    /// How many replicas are asked for.
    pub(super) replicas: i32,
    pub(super) present: i32,
    /// Which pods are its own.
    pub(super) selector: String,
    whole: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    metadata: ObjectMeta,
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

impl Object for Wire {
    fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Scales {
    pub(super) fn new(client: Client) -> Self {
        Self { served: Served::new(client.clone()), client }
    }

    /// The resources that a kind may be.
    pub(super) async fn resources(&self, wanted: GroupKind<'_>) -> Result<Vec<ResourceType>, String> {
        let (mut served, age) = self.served.known().await.map_err(|error| Chain(&error).to_string())?;
        let mut found = owned(&served, wanted);
        let is_old = |limit| age.is_some_and(|age| age >= limit);
        if is_old(ASKED_AT_LEAST_EVERY) || (found.is_err() && is_old(ASKED_AT_MOST_EVERY)) {
            served = self.served.discover().await.map_err(|error| Chain(&error).to_string())?;
            found = owned(&served, wanted);
        }
        found
    }

    /// The scale of an object of the first of these resources that has one of that name.
    pub(super) async fn read(&self, resources: &[ResourceType], key: &Key) -> Result<Scaled, String> {
        let mut first = None;
        for resource in resources {
            match self.read_one(resource, key).await {
                Ok(scaled) => return Ok(scaled),
                Err(problem) => first = first.or(Some(problem)),
            }
        }
        Err(first.unwrap_or_else(|| "unrecognized resource".to_owned()))
    }

    async fn read_one(&self, resource: &ResourceType, key: &Key) -> Result<Scaled, String> {
        let read = self.client.get_as::<Value>(resource, key, Some("scale")).await;
        let whole = read.map_err(|error| words(&error, resource))?;
        let unreadable = |error: String| {
            format!(
                "received an object from a /scale endpoint which was not convertible to autoscaling Scale: {error}"
            )
        };
        let wire = Wire::deserialize(&whole).map_err(|error| unreadable(error.to_string()))?;
        Ok(Scaled {
            resource: resource.clone(),
            replicas: wire.spec.replicas,
            present: wire.status.replicas,
            selector: normal(&wire.status.selector).map_err(unreadable)?,
            whole,
        })
    }

    /// Sets the number of replicas, whatever else others change at the same time.
    pub(super) async fn set(
        &self,
        writer: &Writer<'_>,
        scaled: &mut Scaled,
        key: &Key,
        replicas: i32,
        why: &str,
    ) -> Result<(), String> {
        let mut tries = 1;
        loop {
            scaled.whole["spec"]["replicas"] = replicas.into();
            let Scaled { resource, whole, .. } = &*scaled;
            let answer = writer.update_dynamic::<Wire>(resource, key, Some("scale"), whole, why).await;
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() && tries < TRIES => {
                    tokio::time::sleep(BETWEEN_TRIES).await;
                    if let Ok(now) = self.read_one(&scaled.resource, key).await {
                        scaled.whole = now.whole;
                    }
                    tries += 1;
                }
                // Whether it was carried out can be seen.
                Err(error) if error.outcome_unknown() => {
                    let now = self.read_one(&scaled.resource, key).await;
                    let is_done = now.is_ok_and(|now| now.replicas == replicas);
                    return if is_done { Ok(()) } else { Err(words(&error, &scaled.resource)) };
                }
                Err(error) => return Err(words(&error, &scaled.resource)),
            }
        }
    }
}

fn owned(served: &Arc<Discovery>, wanted: GroupKind<'_>) -> Result<Vec<ResourceType>, String> {
    resources(served, wanted).map(|found| found.into_iter().cloned().collect())
}

/// A selector in the form it would have in a spec, which cannot say all that a text can.
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

/// As upstream's events quote it.
fn words(error: &Error, resource: &ResourceType) -> String {
    let text = Chain(error).to_string();
    // Upstream: client-go's scale client is bound to no group, and so names none where the server gave no reason.
    match error.has_cause("UnexpectedServerResponse") && !resource.group.is_empty() {
        true => text.replace(&resource.to_string(), &resource.plural),
        false => text,
    }
}
