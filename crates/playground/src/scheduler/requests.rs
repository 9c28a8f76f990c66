//! Resource requests of a pod.

use flyball_api::ResourceList;

use crate::objects::Pod;

/// The resources that a pod needs: the larger of its containers' sum and its init containers' maximum, plus the overhead of
/// its runtime. Requests at pod level replace the sum of its containers.
// Upstream: component-helpers/resource/helpers.go, PodRequests.
pub(super) fn of(pod: &Pod) -> ResourceList {
    let mut together = ResourceList::default();
    for container in &pod.spec.containers {
        together.add(&container.resources.requests);
    }
    let mut sidecars = ResourceList::default();
    let mut init = ResourceList::default();
    for container in &pod.spec.init_containers {
        let mut now = sidecars.clone();
        now.add(&container.resources.requests);
        if container.is_sidecar() {
            sidecars = now.clone();
        }
        init.raise_to(&now);
    }
    together.add(&sidecars);
    together.raise_to(&init);
    if let Some(whole) = &pod.spec.resources {
        for (name, amount) in whole.requests.iter() {
            together.set(name, amount);
        }
    }
    together.add(&pod.spec.overhead);
    together
}
