//! The lifecycle of a pod on its node: from the pod, its node and the time, the status that it should have now and when to
//! check again. All state is in the pod's own status, so a restarted playground continues where it was.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::time::truncate;
use smol_str::{SmolStr, format_smolstr};

use super::behaviour::Behaviour;
use super::conditions::conditions;
use super::container::{self, Evaluation};
use crate::objects::{ContainerState, ContainerStatus, HostIp, Pod, PodStatus, Terminated};

/// How long containers take to stop, within their grace period.
const STOPS_WITHIN: Duration = Duration::from_secs(1);
/// The exit code of a process that ended by SIGTERM.
const SIGTERM_CODE: i32 = 143;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub host_ip: SmolStr,
    pub pod_ip: SmolStr,
    /// When the kubelet accepted the pod, more precisely than its status says.
    pub since: Timestamp,
}

/// What to do about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing; check again after this time, if any.
    Rest(Option<Duration>),
    /// Write this status; check again after this time.
    Report(Box<PodStatus>, Option<Duration>),
    /// The containers have ended: delete the pod.
    Remove,
}

/// The next step in a pod's lifecycle.
pub fn next(pod: &Pod, place: &Place, now: Timestamp) -> Step {
    if pod.metadata.is_deleting() {
        return stop(pod, now);
    }
    if pod.is_finished() {
        return Step::Rest(None);
    }
    let (status, look_again) = live(pod, place, now);
    match status == pod.status {
        true => Step::Rest(look_again),
        false => Step::Report(Box::new(status), look_again),
    }
}

/// The status of a pod that is not being deleted.
fn live(pod: &Pod, place: &Place, now: Timestamp) -> (PodStatus, Option<Duration>) {
    let behaviour = Behaviour::read(&pod.metadata.annotations);
    let start = pod.status.start_time.unwrap_or(truncate(now));
    let mut clock = Clock { now, next: None };

    let mut status = PodStatus {
        observed_generation: observed(pod),
        start_time: Some(start),
        host_ip: place.host_ip.clone(),
        host_ips: vec![HostIp { ip: place.host_ip.clone() }],
        nominated_node_name: SmolStr::default(),
        ..pod.status.clone()
    };
    let evaluation = Evaluation { pod, behaviour: &behaviour, start: place.since };
    status.init_container_statuses = evaluation.init_containers(&mut clock);
    let initialized = container::are_initialized(&pod.spec.init_containers, &status.init_container_statuses);
    status.container_statuses = evaluation.containers(initialized, &mut clock);
    if initialized {
        status.ephemeral_container_statuses = evaluation.ephemeral_containers(&mut clock);
    }
    let begun = status.init_container_statuses.iter().chain(&status.container_statuses).any(has_begun);
    if begun && status.pod_ip.is_empty() {
        status.pod_ip = place.pod_ip.clone();
        status.pod_ips = vec![HostIp { ip: place.pod_ip.clone() }];
    }
    status.phase = phase(pod, &status, initialized);
    if let Some(limit) = pod.spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok())
        && !matches!(status.phase.as_str(), "Succeeded" | "Failed")
    {
        match clock.has_passed(start, Duration::from_secs(limit)) {
            true => exceed_deadline(&mut status, now),
            false => clock.check_at(start, Duration::from_secs(limit)),
        }
    }
    status.conditions = conditions(pod, &status, initialized, truncate(now));
    (status, clock.next)
}

/// The current time, and the delay until the next time at which the status changes.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) now: Timestamp,
    pub(super) next: Option<Duration>,
}

impl Clock {
    /// Whether `after` has passed since `from`.
    pub(super) fn has_passed(&self, from: Timestamp, after: Duration) -> bool {
        Duration::try_from(self.now.duration_since(from)).unwrap_or_default() >= after
    }

    /// Schedules the next check for `from + after`.
    pub(super) fn check_at(&mut self, from: Timestamp, after: Duration) {
        let since = Duration::try_from(self.now.duration_since(from)).unwrap_or_default();
        let left = after.saturating_sub(since);
        self.next = Some(self.next.map_or(left, |next| next.min(left)));
    }
}

fn observed(pod: &Pod) -> Option<i64> {
    Some(pod.metadata.generation).filter(|generation| *generation > 0)
}

fn has_begun(container: &ContainerStatus) -> bool {
    container.state.running.is_some()
        || container.state.terminated.is_some()
        || container.last_state.terminated.is_some()
}

// Upstream: pkg/kubelet/kubelet_pods.go, getPhase.
fn phase(pod: &Pod, status: &PodStatus, initialized: bool) -> SmolStr {
    let policy = &pod.spec.restart_policy;
    let failed_init =
        pod.spec.init_containers.iter().zip(&status.init_container_statuses).any(|(spec, init)| {
            let ended = init.state.terminated.as_ref();
            !spec.is_sidecar()
                && ended.is_some_and(|t| t.exit_code != 0 && !container::is_restarted(policy, t))
        });
    if failed_init {
        return "Failed".into();
    }
    if !initialized {
        return "Pending".into();
    }
    let ended = |container: &ContainerStatus| {
        container.state.terminated.clone().filter(|t| !container::is_restarted(policy, t))
    };
    let all: Vec<Option<Terminated>> = status.container_statuses.iter().map(ended).collect();
    match () {
        () if all.iter().all(Option::is_some) && !all.is_empty() => {
            match all.iter().flatten().all(|t| t.exit_code == 0) {
                true => "Succeeded".into(),
                false => "Failed".into(),
            }
        }
        () if status.container_statuses.iter().any(has_begun) => "Running".into(),
        () => "Pending".into(),
    }
}

fn exceed_deadline(status: &mut PodStatus, now: Timestamp) {
    end_containers(status, SIGTERM_CODE, now);
    status.phase = "Failed".into();
    status.reason = "DeadlineExceeded".into();
    status.message = "Pod was active on the node longer than the specified deadline".into();
}

/// Terminates a pod that is being deleted.
fn stop(pod: &Pod, now: Timestamp) -> Step {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0).max(0);
    let runs = pod.status.all_containers().any(|container| container.state.running.is_some());
    if !runs {
        // With a grace period of zero only finalizers keep the pod.
        return if grace == 0 && pod.is_finished() { Step::Rest(None) } else { report_end(pod, now) };
    }
    let asked = pod
        .metadata
        .deletion_timestamp
        .and_then(|at| at.checked_sub(Duration::from_secs(u64::try_from(grace).unwrap_or(0))).ok());
    let patience = STOPS_WITHIN.min(Duration::from_secs(u64::try_from(grace).unwrap_or(0)));
    let since = asked.and_then(|at| Duration::try_from(now.duration_since(at)).ok()).unwrap_or(patience);
    match patience.checked_sub(since).filter(|left| !left.is_zero()) {
        Some(left) => Step::Rest(Some(left)),
        None => report_end(pod, now),
    }
}

/// The terminated status is written before the pod is deleted: the Job controller, for one, counts how pods ended.
fn report_end(pod: &Pod, now: Timestamp) -> Step {
    if pod.is_finished() {
        return Step::Remove;
    }
    let mut status = pod.status.clone();
    status.observed_generation = observed(pod);
    let to_completion = pod.spec.restart_policy != flyball_api::pod::RestartPolicy::Always;
    // A pod that would run for ever ends with success on SIGTERM; one that runs to completion fails.
    let code = if to_completion { SIGTERM_CODE } else { 0 };
    end_containers(&mut status, code, now);
    let started = !status.container_statuses.is_empty();
    let failed = !started
        || status
            .container_statuses
            .iter()
            .any(|c| c.state.terminated.as_ref().is_none_or(|t| t.exit_code != 0));
    status.phase = if failed { "Failed".into() } else { "Succeeded".into() };
    status.conditions = conditions(pod, &status, true, truncate(now));
    Step::Report(Box::new(status), Some(Duration::ZERO))
}

fn end_containers(status: &mut PodStatus, code: i32, now: Timestamp) {
    let first = status.init_container_statuses.iter_mut();
    let all = first.chain(&mut status.container_statuses).chain(&mut status.ephemeral_container_statuses);
    for container in all {
        (container.ready, container.started) = (false, Some(false));
        if container.state.terminated.is_some() {
            continue;
        }
        let started_at = container.state.running.take().and_then(|running| running.started_at);
        // A container that never started was not killed, but it did not succeed either.
        let code = if started_at.is_none() { 137 } else { code };
        let terminated = Terminated {
            exit_code: code,
            reason: container::reason(code),
            started_at: started_at.or(Some(truncate(now))),
            finished_at: Some(truncate(now)),
            container_id: container.container_id.clone(),
        };
        container.state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
    }
}

/// The id of a container's n-th run.
pub(super) fn container_id(pod: &Pod, container: &str, run: i32) -> SmolStr {
    let seed = format!("{}/{container}/{run}", pod.metadata.uid);
    let hash = |salt: &str| flyball_api::hash::fnv32a(format!("{salt}{seed}").as_bytes());
    let digits: String =
        ["a", "b", "c", "d", "e", "f", "g", "h"].iter().map(|salt| format!("{:08x}", hash(salt))).collect();
    format_smolstr!("flyball://{digits}")
}

#[cfg(test)]
#[path = "tests/life.rs"]
mod tests;
