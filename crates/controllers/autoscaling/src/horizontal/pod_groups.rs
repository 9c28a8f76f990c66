//! Which pods count when a measure is turned into replicas, and what they ask for. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::Timestamp;
use flyball_api::pod::{ConditionStatus, Container, Phase, Pod, ResourceOptions};
use jiff::SignedDuration;
use smol_str::SmolStr;

use super::replicas::{Sample, Samples, Tolerances};

/// What a measure is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The pods of the workload.
    pub pods: &'a [Arc<Pod>],
    /// How many replicas it asks for.
    pub replicas: i32,
    /// How far a measure may be off.
    pub tolerances: Tolerances,
    /// What young pods are given; only when CPU is measured.
    pub warm_up: Option<WarmUp>,
    pub now: Timestamp,
}

/// The time in which the CPU that a pod uses says little: it is still starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// So long after its start, a pod counts only while it is ready, and by what was measured since.
    pub initialization: SignedDuration,
    /// A pod that became unready within so long after its start has never been ready.
    pub readiness: SignedDuration,
}

/// Pods by what their measures are worth.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub ready: usize,
    /// They have not started in earnest: what they use is left out.
    pub unready: Vec<SmolStr>,
    /// Nothing was measured of them.
    pub missing: Vec<SmolStr>,
}

impl Census {
    /// Sorts the pods, and leaves of `samples` only what counts. There is an error if that is nothing.
    pub fn take(scope: &Scope<'_>, samples: &mut Samples) -> Result<Self, String> {
        if scope.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let mut census = Self::default();
        for pod in scope.pods {
            let name = &pod.metadata.name;
            match standing(pod, samples.get(name), scope) {
                Standing::Ignored => {
                    samples.remove(name);
                }
                Standing::Unready => {
                    samples.remove(name);
                    census.unready.push(name.clone());
                }
                Standing::Missing => census.missing.push(name.clone()),
                Standing::Ready => census.ready += 1,
            }
        }
        if samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        Ok(census)
    }
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

enum Standing {
    Ignored,
    Unready,
    Missing,
    Ready,
}

fn standing(pod: &Pod, sample: Option<&Sample>, scope: &Scope<'_>) -> Standing {
    if pod.metadata.is_deleting() || pod.status.phase == Phase::Failed {
        return Standing::Ignored;
    }
    if pod.status.phase == Phase::Pending {
        return Standing::Unready;
    }
    let Some(sample) = sample else { return Standing::Missing };
    let is_starting = scope.warm_up.is_some_and(|warm_up| warm_up.holds(pod, sample, scope.now));
    if is_starting { Standing::Unready } else { Standing::Ready }
}

impl WarmUp {
    fn holds(self, pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
        let (Some(ready), Some(started)) = (pod.ready_condition(), pod.status.start_time) else {
            return true;
        };
        let is_unready = ready.status == ConditionStatus::False;
        let changed = ready.last_transition_time();
        if after(started, self.initialization) > now {
            // One window must have passed since the pod became ready.
            let is_early = sample.at < changed.map(|changed| after(changed, sample.window));
            return is_unready || is_early;
        }
        is_unready && changed.is_none_or(|changed| after(started, self.readiness) > changed)
    }
}

fn after(moment: Timestamp, delay: SignedDuration) -> Timestamp {
    moment.checked_add(delay).unwrap_or(Timestamp::MAX)
}

impl Scope<'_> {
    /// How many pods run and are ready.
    pub(super) fn ready(&self) -> Result<usize, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        Ok(self.pods.iter().filter(|pod| pod.status.phase == Phase::Running && pod.is_ready()).count())
    }
}

/// What each pod, or one container of each, asks of a resource, in thousandths. What is set for a pod as a whole counts
/// before its containers if `pod_level` says so.
pub fn requests(
    pods: &[Arc<Pod>],
    resource: &str,
    container: Option<&str>,
    pod_level: bool,
) -> Result<BTreeMap<SmolStr, i64>, String> {
    let of = |pod: &Arc<Pod>| {
        let request = match container {
            Some(container) => of_container(pod, resource, container),
            None if pod_level && has_own_requests(pod) => of_pod(pod, resource),
            None => of_all(pod, resource),
        };
        Ok((pod.metadata.name.clone(), request?))
    };
    pods.iter().map(of).collect()
}

fn has_own_requests(pod: &Pod) -> bool {
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
    let found = lasting(pod).find(|container| container.name == name);
    let absent = || format!("container {name} not found in Pod {}", pod.metadata.name);
    request(pod, found.ok_or_else(absent)?, resource)
}

fn of_all(pod: &Pod, resource: &str) -> Result<i64, String> {
    lasting(pod).try_fold(0_i64, |sum, container| Ok(sum.saturating_add(request(pod, container, resource)?)))
}

/// Containers that run as long as the pod does.
fn lasting(pod: &Pod) -> impl Iterator<Item = &Container> {
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
