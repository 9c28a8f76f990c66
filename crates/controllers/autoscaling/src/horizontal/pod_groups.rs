//! Which pods count when a metric is turned into replicas, and their resource requests. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::Timestamp;
use flyball_api::pod::{ConditionStatus, Container, Phase, Pod, ResourceOptions};
use jiff::SignedDuration;
use smol_str::SmolStr;

use super::replicas::{Sample, Samples, Tolerances};

/// The workload that a metric is about.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    pub pods: &'a [Arc<Pod>],
    /// `spec.replicas` of the scale.
    pub replicas: i32,
    pub tolerances: Tolerances,
    /// Only for CPU metrics.
    pub warm_up: Option<WarmUp>,
    pub now: Timestamp,
}

/// The time after the start of a pod in which its CPU usage does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// For this long after its start, a pod counts only while it is ready, and only by samples taken since then.
    pub initialization: SignedDuration,
    /// A pod whose Ready condition became false within this time after its start counts as one that has never been ready.
    pub readiness: SignedDuration,
}

/// Pods grouped by whether their samples count.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PodGroups {
    pub ready: usize,
    /// Pods that are still starting: their samples are ignored.
    pub unready: Vec<SmolStr>,
    /// Pods without a sample.
    pub missing: Vec<SmolStr>,
}

impl PodGroups {
    /// Groups the pods, and removes the samples that do not count.
    ///
    /// # Errors
    /// No sample is left.
    pub fn new(workload: &Workload<'_>, samples: &mut Samples) -> Result<Self, String> {
        if workload.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let mut groups = Self::default();
        for pod in workload.pods {
            let name = &pod.metadata.name;
            match group(pod, samples.get(name), workload) {
                Group::Ignored => {
                    samples.remove(name);
                }
                Group::Unready => {
                    samples.remove(name);
                    groups.unready.push(name.clone());
                }
                Group::Missing => groups.missing.push(name.clone()),
                Group::Ready => groups.ready += 1,
            }
        }
        if samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        Ok(groups)
    }
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

enum Group {
    Ignored,
    Unready,
    Missing,
    Ready,
}

fn group(pod: &Pod, sample: Option<&Sample>, workload: &Workload<'_>) -> Group {
    if pod.metadata.is_deleting() || pod.status.phase == Phase::Failed {
        return Group::Ignored;
    }
    if pod.status.phase == Phase::Pending {
        return Group::Unready;
    }
    let Some(sample) = sample else { return Group::Missing };
    let is_starting = workload.warm_up.is_some_and(|warm_up| warm_up.applies(pod, sample, workload.now));
    if is_starting { Group::Unready } else { Group::Ready }
}

impl WarmUp {
    fn applies(self, pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
        let (Some(ready), Some(started)) = (pod.ready_condition(), pod.status.start_time) else {
            return true;
        };
        let is_unready = ready.status == ConditionStatus::False;
        let changed = ready.last_transition_time();
        if after(started, self.initialization) > now {
            // The whole window of the sample must lie after the time at which the pod became ready.
            let is_early = sample.at < changed.map(|changed| after(changed, sample.window));
            return is_unready || is_early;
        }
        is_unready && changed.is_none_or(|changed| after(started, self.readiness) > changed)
    }
}

fn after(time: Timestamp, delay: SignedDuration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

impl Workload<'_> {
    /// How many pods run and are ready.
    pub(super) fn ready(&self) -> Result<usize, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        Ok(self.pods.iter().filter(|pod| pod.status.phase == Phase::Running && pod.is_ready()).count())
    }
}

/// The requests of each pod, or of one container of each, for a resource, in thousandths. With `pod_level`, requests of a
/// whole pod replace those of its containers.
pub fn requests(
    pods: &[Arc<Pod>],
    resource: &str,
    container: Option<&str>,
    pod_level: bool,
) -> Result<BTreeMap<SmolStr, i64>, String> {
    let of = |pod: &Arc<Pod>| {
        let request = match container {
            Some(container) => of_container(pod, resource, container),
            None if pod_level && has_pod_level_requests(pod) => of_pod(pod, resource),
            None => of_all(pod, resource),
        };
        Ok((pod.metadata.name.clone(), request?))
    };
    pods.iter().map(of).collect()
}

fn has_pod_level_requests(pod: &Pod) -> bool {
    let is_supported = |name: &str| name == "cpu" || name == "memory" || name.starts_with("hugepages-");
    let own = pod.spec.rare().resources.as_ref();
    own.is_some_and(|own| own.requests.iter().any(|(name, _)| is_supported(name)))
}

fn of_pod(pod: &Pod, resource: &str) -> Result<i64, String> {
    let request = pod.requests(ResourceOptions::default()).get(resource);
    let missing = || format!("missing pod-level request for {resource} in Pod {}", pod.metadata.name);
    request.map(|amount| amount.milli_value()).ok_or_else(missing)
}

fn of_container(pod: &Pod, resource: &str, name: &str) -> Result<i64, String> {
    let found = long_running(pod).find(|container| container.name == name);
    let absent = || format!("container {name} not found in Pod {}", pod.metadata.name);
    request(pod, found.ok_or_else(absent)?, resource)
}

fn of_all(pod: &Pod, resource: &str) -> Result<i64, String> {
    long_running(pod)
        .try_fold(0_i64, |sum, container| Ok(sum.saturating_add(request(pod, container, resource)?)))
}

/// Containers that run as long as the pod does.
fn long_running(pod: &Pod) -> impl Iterator<Item = &Container> {
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
    pod.spec.containers.iter().chain(sidecars)
}

fn request(pod: &Pod, container: &Container, resource: &str) -> Result<i64, String> {
    let missing = || {
        let (container, pod) = (&container.name, &pod.metadata.name);
        format!("missing request for {resource} in container {container} of Pod {pod}")
    };
    container.resources.requests.get(resource).map(|amount| amount.milli_value()).ok_or_else(missing)
}
