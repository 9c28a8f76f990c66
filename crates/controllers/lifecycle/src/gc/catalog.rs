//! What the server serves, as the collector needs it: which resources to follow, and where the objects of a
//! kind are found. Pure.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::ResourceType;
use flyball_client::Discovery;
use smol_str::SmolStr;

/// The verbs without which a resource cannot be followed or collected.
const NEEDED: [&str; 3] = ["delete", "list", "watch"];

/// One look at discovery.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    by_kind: BTreeMap<(SmolStr, SmolStr), ResourceType>,
}

impl Catalog {
    /// Every version of every kind.
    pub fn new(discovery: &Discovery) -> Self {
        let mut by_kind = BTreeMap::new();
        for found in &discovery.resources {
            let resource = &found.resource;
            by_kind
                .entry((resource.api_version(), resource.kind.clone()))
                .or_insert_with(|| resource.clone());
        }
        Self { by_kind }
    }

    /// Where the objects of a kind are served, if they are.
    pub fn resource(&self, api_version: &str, kind: &str) -> Option<&ResourceType> {
        self.by_kind.get(&(SmolStr::new(api_version), SmolStr::new(kind)))
    }

    /// Keeps what was known about group versions that could not be discovered this time.
    pub fn keep_failed(&mut self, before: &Self, discovery: &Discovery) {
        for (key, resource) in &before.by_kind {
            if discovery.has_failed(&key.0) {
                self.by_kind.entry(key.clone()).or_insert_with(|| resource.clone());
            }
        }
    }
}

/// The resources to follow: all that can be listed, watched and deleted, in the version that the server prefers,
/// and of the group versions that could not be discovered this time those that work already.
pub fn deletable(
    discovery: &Discovery,
    ignored: impl Fn(&ResourceType) -> bool,
    working: impl Iterator<Item = ResourceType>,
) -> BTreeSet<ResourceType> {
    discovery.followable(&NEEDED, working).filter(|resource| !ignored(resource)).collect()
}
