//! Which of the resources that the server serves quotas can limit. Pure.

use std::collections::BTreeSet;

use flyball_api::ResourceType;
use flyball_client::Discovery;

/// The verbs that a resource needs to be limited and watched.
const NEEDED: [&str; 4] = ["create", "list", "watch", "delete"];

/// All namespaced resources that can be created and watched, in the version that the server prefers. Of group versions that
/// could not be discovered this time, those that are watched already.
pub fn quotable(
    discovery: &Discovery,
    followed: impl Iterator<Item = ResourceType>,
) -> BTreeSet<ResourceType> {
    let wanted = discovery.followable(&NEEDED, followed);
    wanted.filter(|resource| resource.namespaced && !is_ignored(resource)).collect()
}

/// Events are not limited, as upstream.
fn is_ignored(resource: &ResourceType) -> bool {
    resource.plural == "events" && matches!(resource.group.as_str(), "" | "events.k8s.io")
}
