//! Which resources a server serves: from one aggregated document, or group by group from older servers. A group whose server
//! is down is reported; it does not affect the others.

use flyball_api::ResourceType;
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use smol_str::SmolStr;

use crate::chain::Chain;
use crate::client::Client;
use crate::encoding::Encoding;
use crate::error::Error;
use crate::request::Accept;

/// Group documents fetched at once, from servers without aggregated discovery.
const CONCURRENCY: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// In the server's order: groups by priority, versions by preference.
    pub resources: Vec<DiscoveredResource>,
    /// The group versions that could not be discovered. Their resources may exist: do not conclude from their absence.
    pub failures: Vec<DiscoveryFailure>,
}

/// A resource in one version of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredResource {
    pub resource: ResourceType,
    pub verbs: Vec<SmolStr>,
    /// Such as `status`.
    pub subresources: Vec<SmolStr>,
    /// Whether this is the preferred version of the resource.
    pub preferred: bool,
    pub short_names: Vec<SmolStr>,
    /// Such as `all`.
    pub categories: Vec<SmolStr>,
}

impl DiscoveredResource {
    /// Whether the verb is served.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

impl Discovery {
    /// Whether a group version could not be discovered this time.
    pub fn has_failed(&self, group_version: &str) -> bool {
        self.failures.iter().any(|failure| failure.group_version == group_version)
    }

    /// The resource that is meant by `pod`, `pods`, `po`, `Pod` or `pods.v1`, if it can be read.
    pub fn named(&self, given: &str) -> Option<&ResourceType> {
        let given = given.to_lowercase();
        let (wanted, group) = match given.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (given.as_str(), None),
        };
        let is_of = |resource: &ResourceType, group: &str| {
            resource.group == group || group == format!("{}.{}", resource.version, resource.group)
        };
        let found = self.resources.iter().find(|resource| {
            let of_group = group.is_none_or(|group| is_of(&resource.resource, group));
            let is_kind = resource.resource.kind.to_lowercase() == wanted;
            let is_short = resource.short_names.iter().any(|short| short == wanted);
            resource.has_verb("get")
                && of_group
                && (is_kind || is_short || resource.resource.plural == wanted)
        });
        found.map(|found| &found.resource)
    }

    /// The resources with all of `verbs`, in the preferred version; and, of the group versions that could not be discovered
    /// this time, those that are `followed` already.
    pub fn followable(
        &self,
        verbs: &[&str],
        followed: impl Iterator<Item = ResourceType>,
    ) -> impl Iterator<Item = ResourceType> {
        let served = self
            .resources
            .iter()
            .filter(|found| found.preferred && verbs.iter().all(|verb| found.has_verb(verb)))
            .map(|found| found.resource.clone());
        served.chain(followed.filter(|resource| self.has_failed(&resource.api_version())))
    }
}

/// A group version that could not be discovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryFailure {
    /// As in `apiVersion`.
    pub group_version: String,
    pub problem: String,
}

impl Client {
    pub async fn discover(&self) -> Result<Discovery, Error> {
        let mut found = Discovery::default();
        for root in ["/api", "/apis"] {
            let reply = self.get_raw_as(root, Accept::Discovery).await?;
            let kind: Kind = decode(root, &reply.body)?;
            match kind.kind.as_str() {
                "APIGroupDiscoveryList" => aggregated(decode(root, &reply.body)?, &mut found),
                "APIVersions" => {
                    let versions: Versions = decode(root, &reply.body)?;
                    self.plain(core_group(versions), &mut found).await;
                }
                _ => self.plain(decode::<GroupList>(root, &reply.body)?.groups, &mut found).await,
            }
        }
        prefer_first(&mut found.resources);
        Ok(found)
    }

    async fn plain(&self, groups: Vec<Group>, found: &mut Discovery) {
        let versions = groups.into_iter().flat_map(Group::by_preference);
        let documents = stream::iter(versions).map(|group_version| async move {
            let path = match group_version.contains('/') {
                true => format!("/apis/{group_version}"),
                false => format!("/api/{group_version}"),
            };
            let document = match self.get_raw(&path).await {
                Ok(reply) => decode::<ResourceList>(&path, &reply.body),
                Err(error) => Err(error),
            };
            (group_version, document)
        });
        let mut documents = documents.buffered(CONCURRENCY);
        while let Some((group_version, document)) = documents.next().await {
            match document {
                Ok(list) => found.resources.extend(list.resources(&group_version)),
                Err(error) => found.failures.push(DiscoveryFailure {
                    group_version: group_version.into(),
                    problem: Chain(&error).to_string(),
                }),
            }
        }
    }
}

fn decode<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|source| Error::Decode {
        what: format!("get {path}").into(),
        encoding: Encoding::Json,
        source,
    })
}

/// Versions are in order of preference, so the first that serves a resource is the preferred one.
fn prefer_first(resources: &mut [DiscoveredResource]) {
    let mut seen = std::collections::BTreeSet::new();
    for found in resources {
        found.preferred = seen.insert((found.resource.group.clone(), found.resource.plural.clone()));
    }
}

fn aggregated(list: Aggregated, found: &mut Discovery) {
    for group in list.items {
        for version in group.versions {
            if version.freshness == "Stale" {
                let group_version = group_version(&group.metadata.name, &version.version);
                // Upstream's text: it is used in conditions of namespaces.
                let problem = format!("stale GroupVersion discovery: {group_version}");
                found.failures.push(DiscoveryFailure { group_version, problem });
                continue;
            }
            let resources = version
                .resources
                .into_iter()
                .filter_map(|r| r.discovered(&group.metadata.name, &version.version));
            found.resources.extend(resources);
        }
    }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    kind: SmolStr,
}

#[derive(Deserialize)]
struct Aggregated {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    /// The core group has empty metadata.
    #[serde(default)]
    metadata: Name,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    name: SmolStr,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: SmolStr,
    #[serde(default)]
    freshness: SmolStr,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: SmolStr,
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: SmolStr,
    #[serde(default)]
    verbs: Vec<SmolStr>,
    #[serde(default)]
    short_names: Vec<SmolStr>,
    #[serde(default)]
    categories: Vec<SmolStr>,
    #[serde(default)]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Deserialize)]
struct AggregatedSubresource {
    subresource: SmolStr,
}

impl AggregatedResource {
    /// `None` for a resource without a kind, which is only the parent of its subresources.
    fn discovered(self, group: &SmolStr, version: &SmolStr) -> Option<DiscoveredResource> {
        let kind = self.response_kind.filter(|k| !k.kind.is_empty())?.kind;
        let resource = ResourceType {
            group: group.clone(),
            version: version.clone(),
            plural: self.resource,
            kind,
            namespaced: self.scope == "Namespaced",
        };
        let subresources = self.subresources.into_iter().map(|s| s.subresource).collect();
        let Self { verbs, short_names, categories, .. } = self;
        Some(DiscoveredResource { resource, verbs, subresources, preferred: false, short_names, categories })
    }
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    versions: Vec<SmolStr>,
}

fn core_group(versions: Versions) -> Vec<Group> {
    let versions = versions.versions.into_iter().map(|group_version| GroupVersion { group_version });
    vec![Group { versions: versions.collect(), preferred_version: None }]
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(default)]
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    #[serde(default)]
    group_version: SmolStr,
}

impl Group {
    fn by_preference(mut self) -> Vec<SmolStr> {
        let preferred = self.preferred_version;
        self.versions.sort_by_key(|v| preferred.as_ref() != Some(v));
        self.versions.into_iter().map(|v| v.group_version).collect()
    }
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<PlainResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainResource {
    name: SmolStr,
    #[serde(default)]
    kind: SmolStr,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<SmolStr>,
    #[serde(default)]
    short_names: Vec<SmolStr>,
    #[serde(default)]
    categories: Vec<SmolStr>,
}

impl ResourceList {
    /// Subresources are in the same list, as `parent/name`.
    fn resources(self, group_version: &str) -> Vec<DiscoveredResource> {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let (children, parents): (Vec<_>, Vec<_>) =
            self.resources.into_iter().partition(|r| r.name.contains('/'));
        let children: Vec<(&str, &str)> = children.iter().filter_map(|r| r.name.split_once('/')).collect();
        let discovered = parents.into_iter().map(|r| DiscoveredResource {
            subresources: children
                .iter()
                .filter(|(p, _)| *p == r.name)
                .map(|(_, s)| SmolStr::from(*s))
                .collect(),
            resource: ResourceType {
                group: group.into(),
                version: version.into(),
                plural: r.name,
                kind: r.kind,
                namespaced: r.namespaced,
            },
            verbs: r.verbs,
            preferred: false,
            short_names: r.short_names,
            categories: r.categories,
        });
        discovered.collect()
    }
}

#[cfg(test)]
#[path = "tests/discovery.rs"]
mod tests;
