//! Which of the resources that the server serves quotas can limit. Pure.

use std::collections::BTreeSet;

use flyball_api::ResourceType;
use flyball_client::Discovery;

/// The verbs without which a resource cannot be limited or followed.
const NEEDED: [&str; 4] = ["create", "list", "watch", "delete"];

/// All namespaced resources that can be made and followed, in the version that the server prefers, and of the group
/// versions that could not be discovered this time those that are followed already.
pub fn quotable(
    discovery: &Discovery,
    followed: impl Iterator<Item = ResourceType>,
) -> BTreeSet<ResourceType> {
    let wanted = discovery.followable(&NEEDED, followed);
    wanted.filter(|resource| resource.namespaced && !is_ignored(resource)).collect()
}

/// Events were never limited: there may be any number of them.
fn is_ignored(resource: &ResourceType) -> bool {
    resource.plural == "events" && matches!(resource.group.as_str(), "" | "events.k8s.io")
}
