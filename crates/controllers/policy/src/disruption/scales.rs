//! How many pods an owner of any other kind wants: found by discovery, read from its `scale` subresource.

use std::time::Duration;

use flyball_api::{Key, OwnerReference, ResourceType, Uid};
use flyball_client::{Client, DiscoveredResource, Discovery, Error, Request, Verb};
use flyball_common::served::Served;
use serde::Deserialize;

use super::owners::Scale;

/// What the server serves is not asked for more often than this, however many owners are not found in it.
const ASKED_AT_MOST_EVERY: Duration = Duration::from_secs(5);

/// Why the scale of an owner is not known. Prints as upstream's events and conditions do.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    /// The server has no such kind.
    #[error("no matches for kind {kind:?} in version {version:?}")]
    NoKind { kind: String, version: String },
    /// Objects of that kind have no scale.
    #[error("{resource} does not implement the scale subresource")]
    NoScale {
        /// As in `daemonsets.apps`.
        resource: String,
    },
    /// The server, or the way to it, failed.
    #[error("{0}")]
    Api(#[source] Error),
}

/// What came of a question.
pub(super) struct Answer {
    /// The scale; nothing if the owner is gone.
    pub(super) scale: Result<Option<Scale>, Unknown>,
    /// What the server serves may have changed since: ask again after this long.
    pub(super) ask_again: Option<Duration>,
}

/// Asks the server for scales, and remembers what it serves.
pub(super) struct Scales {
    client: Client,
    served: Served,
}

#[derive(Deserialize)]
struct Reported {
    metadata: Identity,
    #[serde(default)]
    spec: Replicas,
}

#[derive(Deserialize)]
struct Identity {
    uid: Uid,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Replicas {
    replicas: i32,
}

impl Scales {
    pub(super) fn new(client: Client) -> Self {
        Self { served: Served::new(client.clone()), client }
    }

    /// The scale of an owner.
    pub(super) async fn ask(&self, namespace: &str, owner: &OwnerReference) -> Answer {
        let settled = |scale| Answer { scale, ask_again: None };
        let (served, age) = match self.served.known().await {
            Ok(served) => served,
            Err(error) => return settled(Err(Unknown::Api(error))),
        };
        let scale = self.ask_among(&served, namespace, owner).await;
        let is_answer = matches!(scale, Ok(Some(_)) | Err(Unknown::Api(_)));
        match age {
            Some(age) if !is_answer && age < ASKED_AT_MOST_EVERY => {
                Answer { scale, ask_again: Some(ASKED_AT_MOST_EVERY - age) }
            }
            Some(_) if !is_answer => match self.served.discover().await {
                Ok(served) => settled(self.ask_among(&served, namespace, owner).await),
                Err(error) => settled(Err(Unknown::Api(error))),
            },
            _ => settled(scale),
        }
    }

    async fn ask_among(
        &self,
        served: &Discovery,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<Scale>, Unknown> {
        let resource = scalable(served, owner)?;
        let key = Key::new(namespace, owner.name.as_str());
        let request = Request::object(Verb::Get, resource, &key, Some("scale"));
        match self.client.send::<Reported>(request).await {
            Ok(Reported { metadata, .. }) if metadata.uid != owner.uid => Ok(None),
            Ok(Reported { metadata, spec }) => Ok(Some(Scale { uid: metadata.uid, replicas: spec.replicas })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(Unknown::Api(error)),
        }
    }
}

/// The resource under which the scale of an owner is read: the kind that it names, in the version that the server
/// prefers.
pub(super) fn scalable<'a>(
    served: &'a Discovery,
    owner: &OwnerReference,
) -> Result<&'a ResourceType, Unknown> {
    let is_kind = |found: &&DiscoveredResource| {
        found.resource.kind == owner.kind && found.resource.api_version() == owner.api_version
    };
    let named = served.resources.iter().find(is_kind).ok_or_else(|| Unknown::NoKind {
        kind: owner.kind.to_string(),
        version: owner.api_version.to_string(),
    })?;
    if !named.subresources.iter().any(|subresource| subresource == "scale") {
        return Err(Unknown::NoScale { resource: group_resource(&named.resource) });
    }
    let is_preferred = |found: &&DiscoveredResource| {
        found.preferred
            && found.resource.group == named.resource.group
            && found.resource.plural == named.resource.plural
    };
    Ok(&served.resources.iter().find(is_preferred).unwrap_or(named).resource)
}

/// As Go prints a GroupResource.
fn group_resource(resource: &ResourceType) -> String {
    let ResourceType { group, plural, .. } = resource;
    if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
}
