//! The state machine of one container: waiting, running, terminated, restarted; init containers run in order.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::pod::RestartPolicy;
use flyball_api::time::truncate;
use smol_str::{SmolStr, format_smolstr};

use super::behaviour::Behaviour;
use super::life::{Clock, container_id};
use super::probes;
use super::script::{self, Script};
use crate::objects::{Container, ContainerState, ContainerStatus, Pod, Running, Terminated, Waiting};

/// The backoff before the second restart; it doubles with each restart.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// The exit code of a container that was killed because a probe failed.
const KILLED: i32 = 137;

/// Computes the current states of a pod's containers.
pub(super) struct Evaluation<'a> {
    pub(super) pod: &'a Pod,
    pub(super) behaviour: &'a Behaviour,
    /// When the kubelet accepted the pod.
    pub(super) start: Timestamp,
}

/// Whether a container that ended like this is restarted.
pub(super) fn is_restarted(policy: &RestartPolicy, ended: &Terminated) -> bool {
    match policy {
        RestartPolicy::Never => false,
        RestartPolicy::OnFailure => ended.exit_code != 0,
        _ => true,
    }
}

/// Whether all init containers have completed and all sidecars have started.
pub(super) fn are_initialized(specs: &[Container], statuses: &[ContainerStatus]) -> bool {
    specs.len() == statuses.len()
        && specs.iter().zip(statuses).all(|(spec, status)| is_initialized(spec, status))
}

/// Whether the init container after this one may start.
fn is_initialized(spec: &Container, status: &ContainerStatus) -> bool {
    match spec.is_sidecar() {
        true => status.started == Some(true),
        false => status.state.terminated.as_ref().is_some_and(|ended| ended.exit_code == 0),
    }
}

pub(super) fn reason(code: i32) -> SmolStr {
    SmolStr::new_static(if code == 0 { "Completed" } else { "Error" })
}

impl Evaluation<'_> {
    pub(super) fn init_containers(&self, clock: &mut Clock) -> Vec<ContainerStatus> {
        let mut may_begin = true;
        let specs = &self.pod.spec.init_containers;
        let statuses = specs.iter().map(|spec| {
            let old = self.pod.status.init_container_statuses.iter().find(|old| old.name == spec.name);
            let status = self.container(spec, old, Stage::Init, may_begin, clock);
            may_begin = may_begin && is_initialized(spec, &status);
            status
        });
        statuses.collect()
    }

    /// The other containers run in parallel, once the init containers are done.
    pub(super) fn containers(&self, initialized: bool, clock: &mut Clock) -> Vec<ContainerStatus> {
        let specs = self.pod.spec.containers.iter();
        let old =
            |spec: &Container| self.pod.status.container_statuses.iter().find(|old| old.name == spec.name);
        specs.map(|spec| self.container(spec, old(spec), Stage::Main, initialized, clock)).collect()
    }

    /// Ephemeral containers run once, as their command says. The annotations of the pod do not apply to them.
    pub(super) fn ephemeral_containers(&self, clock: &mut Clock) -> Vec<ContainerStatus> {
        let all = &self.pod.status.ephemeral_container_statuses;
        let statuses = self.pod.spec.ephemeral_containers.iter().map(|spec| {
            let old = all.iter().find(|old| old.name == spec.name).cloned();
            let mut status = old
                .unwrap_or_else(|| ContainerStatus { name: spec.name.clone(), ..ContainerStatus::default() });
            status.image = spec.image.clone();
            if !has_started(&status) {
                status.state = self.running(&mut status, spec, clock.now);
            }
            self.maybe_end(&mut status, spec, Stage::Ephemeral, clock);
            status
        });
        statuses.collect()
    }

    fn container(
        &self,
        spec: &Container,
        old: Option<&ContainerStatus>,
        stage: Stage,
        may_begin: bool,
        clock: &mut Clock,
    ) -> ContainerStatus {
        let waiting = || {
            let has_init = !self.pod.spec.init_containers.is_empty();
            waiting(if has_init { "PodInitializing" } else { "ContainerCreating" }, "")
        };
        let mut status = old.cloned().unwrap_or_else(|| ContainerStatus {
            name: spec.name.clone(),
            state: waiting(),
            started: Some(false),
            ..ContainerStatus::default()
        });
        status.image = spec.image.clone();
        if may_begin && !has_started(&status) && self.may_start(&mut status, spec, clock) {
            status.state = self.running(&mut status, spec, clock.now);
        }
        self.maybe_end(&mut status, spec, stage, clock);
        self.maybe_restart(&mut status, spec, stage, clock);
        self.readiness(&mut status, spec, stage, clock);
        status
    }

    /// Whether a container that waits for its first start may start now. If its image cannot be pulled, its state says so.
    fn may_start(&self, status: &mut ContainerStatus, spec: &Container, clock: &mut Clock) -> bool {
        if !clock.has_passed(self.start, self.behaviour.delay) {
            clock.check_at(self.start, self.behaviour.delay);
            return false;
        }
        if self.behaviour.no_image {
            let why = format!("Back-off pulling image {:?} ({}=image)", spec.image, super::behaviour::FAIL);
            status.state = waiting("ImagePullBackOff", &why);
            return false;
        }
        true
    }

    fn running(&self, status: &mut ContainerStatus, spec: &Container, now: Timestamp) -> ContainerState {
        status.container_id = container_id(self.pod, &spec.name, status.restart_count);
        status.image_id = format_smolstr!("{}@simulated", spec.image);
        let running = Running { started_at: Some(truncate(now)) };
        ContainerState { running: Some(running), ..ContainerState::default() }
    }

    fn maybe_end(&self, status: &mut ContainerStatus, spec: &Container, stage: Stage, clock: &mut Clock) {
        let Some(started_at) = status.state.running.as_ref().and_then(|running| running.started_at) else {
            return;
        };
        let end = match stage {
            Stage::Init if spec.is_sidecar() => None,
            // Init containers succeed unless their own command says otherwise.
            Stage::Init => match script::read(spec) {
                Script::Ends { after, code } => Some((after, code)),
                Script::Forever => None,
                Script::Unknown => Some((self.behaviour.delay, 0)),
            },
            Stage::Ephemeral => match script::read(spec) {
                Script::Ends { after, code } => Some((after, code)),
                Script::Forever | Script::Unknown => None,
            },
            Stage::Main => self.behaviour.end_of(self.pod, spec),
        };
        let killed = probes::killed_after(spec).map(|after| (after, KILLED));
        let Some((after, code)) = end.into_iter().chain(killed).min_by_key(|(after, _)| *after) else {
            return;
        };
        if !clock.has_passed(started_at, after) {
            clock.check_at(started_at, after);
            return;
        }
        let terminated = Terminated {
            exit_code: code,
            reason: reason(code),
            started_at: Some(started_at),
            finished_at: Some(truncate(clock.now)),
            container_id: status.container_id.clone(),
        };
        status.state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
    }

    /// Restarts a terminated container: the first time at once, then with backoff.
    fn maybe_restart(&self, status: &mut ContainerStatus, spec: &Container, stage: Stage, clock: &mut Clock) {
        let policy = &self.pod.spec.restart_policy;
        let ended = match (&status.state.terminated, &status.state.waiting) {
            (Some(ended), _) => ended.clone(),
            (None, Some(waiting)) if waiting.reason == "CrashLoopBackOff" => {
                let Some(ended) = status.last_state.terminated.clone() else { return };
                ended
            }
            _ => return,
        };
        let restarted = match stage {
            Stage::Main => is_restarted(policy, &ended),
            Stage::Init => spec.is_sidecar() || (ended.exit_code != 0 && *policy != RestartPolicy::Never),
            Stage::Ephemeral => false,
        };
        if !restarted {
            return;
        }
        let finished_at = ended.finished_at.unwrap_or(clock.now);
        let wait = backoff(status.restart_count);
        status.last_state = ContainerState { terminated: Some(ended), ..ContainerState::default() };
        if clock.has_passed(finished_at, wait) {
            status.restart_count = status.restart_count.saturating_add(1);
            status.state = self.running(status, spec, clock.now);
            self.maybe_end(status, spec, stage, clock);
            return;
        }
        clock.check_at(finished_at, wait);
        let meta = &self.pod.metadata;
        let why = format!(
            "back-off {}s restarting failed container={} pod={}_{}({})",
            wait.as_secs(),
            spec.name,
            meta.name,
            meta.namespace,
            meta.uid
        );
        status.state = waiting("CrashLoopBackOff", &why);
    }

    fn readiness(&self, status: &mut ContainerStatus, spec: &Container, stage: Stage, clock: &mut Clock) {
        let Some(started_at) = status.state.running.as_ref().and_then(|running| running.started_at) else {
            // A completed init container counts as ready.
            status.ready = stage == Stage::Init && is_initialized(spec, status);
            status.started = Some(false);
            return;
        };
        let is_server = stage == Stage::Main || spec.is_sidecar();
        status.started = Some(is_server && probes::lets_start(spec));
        let after = probes::ready_after(spec).filter(|_| is_server && !self.behaviour.never_ready);
        status.ready = after.is_some_and(|after| {
            let passed = clock.has_passed(started_at, after);
            if !passed {
                clock.check_at(started_at, after);
            }
            passed
        });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Init,
    Main,
    Ephemeral,
}

/// Whether a container has started at least once.
fn has_started(status: &ContainerStatus) -> bool {
    let state = &status.state;
    state.running.is_some() || state.terminated.is_some() || status.last_state.terminated.is_some()
}

fn waiting(reason: &'static str, message: &str) -> ContainerState {
    let waiting = Waiting { reason: SmolStr::new_static(reason), message: message.into() };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

/// The backoff after the n-th restart.
fn backoff(restarts: i32) -> Duration {
    match u32::try_from(restarts) {
        Ok(0) | Err(_) => Duration::ZERO,
        Ok(n) => FIRST_BACKOFF.saturating_mul(1 << (n - 1).min(10)).min(LONGEST_BACKOFF),
    }
}
