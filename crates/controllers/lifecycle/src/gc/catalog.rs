//! What the server serves: the resource of each kind, and which resources to watch. Pure.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::{ObjectMeta, ResourceType};
use flyball_client::Discovery;
use smol_str::SmolStr;

/// The verbs without which a resource cannot be watched or collected.
const NEEDED: [&str; 3] = ["delete", "list", "watch"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Each kind as it is and in lower case: owner references may have either.
    by_kind: BTreeMap<(SmolStr, SmolStr), ResourceType>,
}

impl Catalog {
    /// All versions of all kinds.
    pub fn new(discovery: &Discovery) -> Self {
        let mut by_kind = BTreeMap::new();
        let resources = || discovery.resources.iter().map(|found| &found.resource);
        let exact = resources().map(|resource| (resource.kind.clone(), resource));
        // Upstream: client-go, restmapper/discovery.go, NewDiscoveryRESTMapper.
        let lower_case = resources().map(|resource| (resource.kind.to_lowercase().into(), resource));
        for (kind, resource) in exact.chain(lower_case) {
            by_kind.entry((resource.api_version(), kind)).or_insert_with(|| resource.clone());
        }
        Self { by_kind }
    }

    /// The resource of a kind, which may be in lower case, if it is served.
    pub fn resource(&self, api_version: &str, kind: &str) -> Option<&ResourceType> {
        self.by_kind.get(&(SmolStr::new(api_version), SmolStr::new(kind)))
    }

    /// Keeps the resources of group versions that could not be discovered this time.
    pub fn keep_failed(&mut self, before: &Self, discovery: &Discovery) {
        for (key, resource) in &before.by_kind {
            if discovery.has_failed(&key.0) {
                self.by_kind.entry(key.clone()).or_insert_with(|| resource.clone());
            }
        }
    }
}

/// The resources to watch: all that can be listed, watched and deleted, in the version that the server prefers, and
/// those of group versions that could not be discovered this time whose informers work.
pub fn deletable(
    discovery: &Discovery,
    ignored: impl Fn(&ResourceType) -> bool,
    working: impl Iterator<Item = ResourceType>,
) -> BTreeSet<ResourceType> {
    discovery.followable(&NEEDED, working).filter(|resource| !ignored(resource)).collect()
}

/// The informers to start and to stop so that the wanted resources are watched.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub start: Vec<ResourceType>,
    /// Watch the first one instead of the others, which are other versions of it.
    pub succeed: Vec<(ResourceType, Vec<ResourceType>)>,
    pub stop: Vec<ResourceType>,
}

/// Compares the resources that are watched with those that are wanted.
pub fn changes(running: &BTreeSet<ResourceType>, wanted: &BTreeSet<ResourceType>) -> Changes {
    let mut changes = Changes::default();
    for resource in wanted.difference(running) {
        let versions: Vec<ResourceType> =
            running.iter().filter(|other| is_other_version(resource, other)).cloned().collect();
        match versions.is_empty() {
            true => changes.start.push(resource.clone()),
            false => changes.succeed.push((resource.clone(), versions)),
        }
    }
    let is_succeeded = |resource: &&ResourceType| {
        let mut successions = changes.succeed.iter();
        successions.any(|(_, versions)| versions.contains(resource))
    };
    changes.stop = running.difference(wanted).filter(|resource| !is_succeeded(resource)).cloned().collect();
    changes
}

fn is_other_version(one: &ResourceType, other: &ResourceType) -> bool {
    let whole = |resource: &ResourceType| {
        (resource.group.clone(), resource.plural.clone(), resource.kind.clone(), resource.namespaced)
    };
    one.version != other.version && whole(one) == whole(other)
}

/// Whether a change of a definition may change which resources are served. Only its metadata are known: what changes neither labels
/// nor annotations is a change of the spec or the status. APIServices have no generation.
pub fn may_change_resources(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let is_described_anew = old.labels != new.labels || old.annotations != new.annotations;
    let has_same_spec = new.generation != 0
        && (&old.uid, old.generation, old.is_deleting()) == (&new.uid, new.generation, new.is_deleting());
    !(is_described_anew && has_same_spec)
}
