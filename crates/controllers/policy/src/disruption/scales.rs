//! The scale of owners of any other kind: found by discovery, and read live from their `scale` subresource. What an answer
//! means is pure.

use std::time::Duration;

use flyball_api::{Key, OwnerReference, ResourceType, Uid};
use flyball_client::{Client, DiscoveredResource, Discovery, Error, Request, Verb};
use flyball_common::served::Served;
use flyball_runtime::Chain;
use serde::Deserialize;

use super::owners::Scale;
use super::plan::Problem;

/// The least time between two reads of discovery, even if owners are not found in it.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// Why the scale of an owner is not known, in the words of upstream's events and conditions.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error("no matches for kind {kind:?} in version {version:?}")]
    NoKind { kind: String, version: String },
    #[error("{resource} does not implement the scale subresource")]
    NoScale { resource: String },
    #[error("{0}")]
    Api(#[source] Error),
}

pub(super) struct Answer {
    /// The scale; `None` if the owner is gone.
    pub(super) scale: Result<Option<Scale>, Unknown>,
    /// The cached discovery may be out of date: read again after this long.
    pub(super) again_after: Option<Duration>,
}

impl Answer {
    /// The scale of the owner of a pod.
    ///
    /// # Errors
    /// It is not known, so that there is no sum: why, and the error of the request, if one failed.
    pub(super) fn known(self, pod: &str) -> Result<Scale, (Problem, Option<Error>)> {
        let Self { scale, again_after } = self;
        let (message, error) = match scale {
            Ok(Some(scale)) => return Ok(scale),
            Ok(None) => (format!("found no controllers for pod {pod:?}"), None),
            Err(Unknown::Api(error)) => (Chain(&error).to_string(), Some(error)),
            Err(unknown) => (unknown.to_string(), None),
        };
        Err((Problem::Scale { message, again_after }, error))
    }
}

/// Whether what was found in cached discovery can be relied on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Full,
    /// Discovery was read so recently that it is read again only after this long.
    For(Duration),
    /// Discovery has to be read again.
    None,
}

impl Trust {
    /// `age` is that of the cached discovery; `None` if it was just read.
    pub(super) fn of(scale: &Result<Option<Scale>, Unknown>, age: Option<Duration>) -> Self {
        // An owner or its kind that was not found may be served in another version by now.
        let is_answer = matches!(scale, Ok(Some(_)) | Err(Unknown::Api(_)));
        match age.filter(|_| !is_answer) {
            None => Self::Full,
            Some(age) if age < DISCOVERY_INTERVAL => Self::For(DISCOVERY_INTERVAL - age),
            Some(_) => Self::None,
        }
    }
}

/// Reads scales, with cached discovery.
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

    pub(super) async fn read(&self, namespace: &str, owner: &OwnerReference) -> Answer {
        let certain = |scale| Answer { scale, again_after: None };
        let (served, age) = match self.served.known().await {
            Ok(served) => served,
            Err(error) => return certain(Err(Unknown::Api(error))),
        };
        let scale = self.read_served(&served, namespace, owner).await;
        match Trust::of(&scale, age) {
            Trust::Full => certain(scale),
            Trust::For(delay) => Answer { scale, again_after: Some(delay) },
            Trust::None => match self.served.discover().await {
                Ok(served) => certain(self.read_served(&served, namespace, owner).await),
                Err(error) => certain(Err(Unknown::Api(error))),
            },
        }
    }

    async fn read_served(
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

/// The resource of an owner's kind, in the version that the server prefers.
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

/// As upstream prints a GroupResource, such as `daemonsets.apps`.
fn group_resource(resource: &ResourceType) -> String {
    let ResourceType { group, plural, .. } = resource;
    if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
}
