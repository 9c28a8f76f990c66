//! The resources of a kind, from what the server serves. Pure.

use flyball_api::ResourceType;
use flyball_client::{DiscoveredResource, Discovery};

/// A kind in a group, in any version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupKind<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// Such as `Deployment`.
    pub kind: &'a str,
}

/// The group of an `apiVersion`. The version does not matter: the one that the server prefers is used.
pub fn group_of(api_version: &str) -> Result<&str, String> {
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [_] => Ok(""),
        [group, _] => Ok(group),
        _ => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

/// The resources whose objects are of a kind, each in the version that the server prefers. There is rarely more than one.
pub fn resources<'a>(served: &'a Discovery, wanted: GroupKind<'_>) -> Result<Vec<&'a ResourceType>, String> {
    let GroupKind { group, kind } = wanted;
    // Upstream: a kind may be written in lower case, as `restmapper.NewDiscoveryRESTMapper` has it.
    let is_kind = |found: &&DiscoveredResource| {
        found.resource.group == group
            && (found.resource.kind == kind || found.resource.kind.to_lowercase() == kind)
    };
    let mut found: Vec<&ResourceType> = vec![];
    for resource in served.resources.iter().filter(is_kind).map(|found| &found.resource) {
        let is_preferred = |other: &&DiscoveredResource| {
            other.preferred && other.resource.group == group && other.resource.plural == resource.plural
        };
        let preferred = served.resources.iter().find(is_preferred).map_or(resource, |found| &found.resource);
        if !found.contains(&preferred) {
            found.push(preferred);
        }
    }
    if found.is_empty() {
        return Err(format!("no matches for kind {kind:?} in group {group:?}"));
    }
    Ok(found)
}
