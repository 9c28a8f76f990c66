//! Keeps a PodGroup that is being deleted until none of its pods is active.
//!
//! - **Promise**: a PodGroup that is being deleted loses the finalizer `scheduling.k8s.io/podgroup-protection` as soon as
//!   every pod that names it has finished. (The API server sets the finalizer when the group is created.)
//! - **Watches** the metadata of PodGroups, and Pods. **Writes** that finalizer.
//! - Upstream: `pkg/controller/scheduling/podgroupprotection`.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::ResourceType;
use flyball_api::pod::Pod;
use flyball_cache::Index;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "podgroup-protection-controller";

pub const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

const POD_GROUPS: ResourceType =
    ResourceType::new("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true);

/// Pods that have not finished, by the namespace and name of their group.
const ACTIVE: Index<Pod> = Index::new("pod group", |pod, emit| {
    if let Some(group) = triggers::group_of(pod).filter(|_| !pod.is_finished()) {
        emit(&group.to_string());
    }
});

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("podgroupprotection");
    let (groups, pods) = (cx.informers.dynamic(&POD_GROUPS), cx.informer::<Pod>());
    pods.index(&ACTIVE);
    tasks.feed(&groups, &queue, triggers::group_changed);
    tasks.feed(&pods, &queue, triggers::pod_changed);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, groups, pods }));
    Ok(())
}
