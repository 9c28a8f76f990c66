//! Lets go of pod groups that are being deleted once no pod of theirs is at work.
//!
//! - **Promise**: a PodGroup that is being deleted loses the finalizer `scheduling.k8s.io/podgroup-protection` as soon as
//!   no pod that names it is still to run or running. (The finalizer is set by the API server when the group is made.)
//! - **Watches** PodGroups, of which it needs no more than the metadata, and Pods. **Writes** that finalizer.
//! - Upstream: `pkg/controller/scheduling/podgroupprotection`.

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

/// Pods that are not over, by the namespace and name of their group.
const AT_WORK: Index<Pod> = Index::new("pod group", |pod, emit| {
    if let Some(group) = triggers::group_of(pod).filter(|_| !pod.is_finished()) {
        emit(&group.to_string());
    }
});

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("podgroupprotection");
    let (groups, pods) = (cx.informers.dynamic(&POD_GROUPS), cx.informer::<Pod>());
    pods.index(&AT_WORK);
    tasks.feed(&groups, &queue, triggers::group_changed);
    tasks.feed(&pods, &queue, triggers::pod_changed);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, groups, pods }));
    Ok(())
}
