//! Probes of containers. A probe succeeds, unless it runs a command that is known to fail (`false`, `sh -c 'exit 1'`): nothing
//! listens in a simulated pod, so `httpGet`, `tcpSocket` and `grpc` are never tried.

use std::time::Duration;

use super::script;
use crate::objects::{Container, Probe};

/// Whether a probe fails every time.
fn fails(probe: &Probe) -> bool {
    probe.exec.as_ref().is_some_and(|exec| script::read_words(&exec.command).exit_code() != 0)
}

/// After which time a container becomes ready; `None` if it never does.
pub(super) fn ready_after(container: &Container) -> Option<Duration> {
    if container.startup_probe.as_ref().is_some_and(fails) {
        return None;
    }
    match &container.readiness_probe {
        Some(probe) if fails(probe) => None,
        Some(probe) => Some(Duration::from_secs(probe.initial_delay_seconds.into())),
        None => Some(Duration::ZERO),
    }
}

/// Whether a running container counts as started, by its startup probe.
pub(super) fn lets_start(container: &Container) -> bool {
    !container.startup_probe.as_ref().is_some_and(fails)
}

/// After which time a failing startup or liveness probe ends the container. Liveness is not probed before the startup probe
/// has succeeded.
pub(super) fn killed_after(container: &Container) -> Option<Duration> {
    let failing = |probe: &&Probe| fails(probe);
    let startup = container.startup_probe.as_ref().filter(failing);
    let probe = startup.or_else(|| container.liveness_probe.as_ref().filter(failing))?;
    let more = u64::from(probe.failure_threshold.saturating_sub(1)) * u64::from(probe.period_seconds);
    // A probe that fails at once still gives the container a second.
    Some(Duration::from_secs((u64::from(probe.initial_delay_seconds) + more).max(1)))
}
