//! The total requests and limits of a pod: containers run together, init containers one after the other, sidecars with both.

use std::borrow::Cow;

use super::{Container, Pod, PodConditionType, RestartPolicy};
use crate::resources::{ResourceList, Resources};

#[derive(Debug, Clone, Copy, Default)]
pub struct ResourceOptions {
    /// Also use the resources in the status: during a resize they differ from the spec.
    pub use_status: bool,
    /// Ignore pod-level resources.
    pub skip_pod_level: bool,
    pub exclude_overhead: bool,
}

impl Pod {
    /// The requests a quota or an autoscaler counts.
    pub fn requests(&self, options: ResourceOptions) -> ResourceList {
        let mut total = self.aggregate(|container| self.container_requests(container, options));
        if let Some(own) = self.pod_level(options) {
            override_with(&mut total, &own.requests);
        }
        if !options.exclude_overhead {
            total.add(&self.spec.rare().overhead);
        }
        total
    }

    /// The limits a quota counts. Overhead is added only where there is a limit.
    pub fn limits(&self, options: ResourceOptions) -> ResourceList {
        let mut total = self.aggregate(|container| self.container_limits(container, options));
        if let Some(own) = self.pod_level(options) {
            override_with(&mut total, &own.limits);
        }
        if !options.exclude_overhead {
            let limited = total.clone();
            total.add(
                &self.spec.rare().overhead.filtered(|name| limited.get(name).is_some_and(|l| !l.is_zero())),
            );
        }
        total
    }

    /// Whether the node has refused to resize it to its spec.
    pub fn is_resize_infeasible(&self) -> bool {
        let pending = self.status.condition(&PodConditionType::PodResizePending);
        pending.is_some_and(|condition| condition.reason() == "Infeasible")
    }

    fn pod_level(&self, options: ResourceOptions) -> Option<&Resources> {
        self.spec.rare().resources.as_ref().filter(|_| !options.skip_pod_level)
    }

    /// Containers and sidecars add up. An init container runs beside the sidecars started before it; the pod needs
    /// at least that much.
    fn aggregate<'a>(&'a self, of: impl Fn(&'a Container) -> Cow<'a, ResourceList>) -> ResourceList {
        let mut total = ResourceList::default();
        for container in self.spec.containers.iter() {
            total.add(&of(container));
        }
        let mut sidecars = ResourceList::default();
        let mut peak = ResourceList::default();
        for container in self.spec.init_containers.iter() {
            let own = of(container);
            if container.is_sidecar() {
                total.add(&own);
                sidecars.add(&own);
                peak.raise_to(&sidecars);
            } else {
                let mut beside = own.into_owned();
                beside.add(&sidecars);
                peak.raise_to(&beside);
            }
        }
        total.raise_to(&peak);
        total
    }

    fn container_requests<'a>(
        &'a self,
        container: &'a Container,
        options: ResourceOptions,
    ) -> Cow<'a, ResourceList> {
        let Some(reported) = self.reported(container, options) else {
            return Cow::Borrowed(&container.resources.requests);
        };
        let mut given = reported.actual.requests.clone();
        given.raise_to(&reported.allocated);
        if !self.is_resize_infeasible() {
            let mut wanted = container.resources.requests.clone();
            wanted.raise_to(&given);
            given = wanted;
        }
        Cow::Owned(given)
    }

    fn container_limits<'a>(
        &'a self,
        container: &'a Container,
        options: ResourceOptions,
    ) -> Cow<'a, ResourceList> {
        let Some(reported) = self.reported(container, options) else {
            return Cow::Borrowed(&container.resources.limits);
        };
        if self.is_resize_infeasible() {
            return Cow::Borrowed(&reported.actual.limits);
        }
        let mut wanted = container.resources.limits.clone();
        wanted.raise_to(&reported.actual.limits);
        Cow::Owned(wanted)
    }

    /// The status of a container that can be resized: plain init containers cannot.
    fn reported(&self, container: &Container, options: ResourceOptions) -> Option<&super::ReportedResources> {
        let is_init = self.spec.init_containers.iter().any(|init| std::ptr::eq(init, container));
        if !options.use_status || (is_init && !container.is_sidecar()) {
            return None;
        }
        let mut statuses =
            self.status.container_statuses.iter().chain(self.status.init_container_statuses.iter());
        statuses.find(|status| status.name == container.name)?.resources.as_deref()
    }
}

impl Container {
    /// Whether it is an init container that keeps running beside the others.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
}

/// Pod-level amounts replace the sum of the containers', for the resources that can be set there.
fn override_with(total: &mut ResourceList, own: &ResourceList) {
    for (name, amount) in own.iter() {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            total.set(name, amount);
        }
    }
}
