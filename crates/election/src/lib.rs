//! Leader election with a Lease. Record and timings are client-go's, so that Flyball and upstream can stand by for each
//! other.
//!
//! [`step`](step::step) decides, purely; [`Elector`] reads, writes, watches and waits, and extends the
//! [`Fence`](flyball_client::Fence) that all writes of the leader have to pass.

mod candidate;
mod elector;
mod record;
mod step;
#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_client::WatchParams;
use flyball_runtime::config::LeaderElection;
use serde_json::Value;
use smol_str::format_smolstr;

pub use candidate::{Candidate, CandidateHealth};
pub use elector::{Elector, LeaseHealth, LeaseRef, Lost};
pub use record::Record;
pub use step::{Action, Observation, step};

/// Attempts to take the lease are spread over 1 to 1 + this times the retry period.
pub const JITTER_FACTOR: f64 = 1.2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    /// Unique for each process.
    pub identity: String,
    /// How long a standby waits after the last renewal it saw.
    pub lease_duration: Duration,
    /// How long the leader tries to renew.
    pub renew_deadline: Duration,
    pub retry_period: Duration,
    /// Whether the API server chooses the holder.
    pub coordinated: bool,
}

impl Settings {
    pub fn new(config: &LeaderElection, identity: String) -> Self {
        Self {
            namespace: config.resource_namespace.clone(),
            name: config.resource_name.clone(),
            identity,
            lease_duration: config.lease_duration,
            renew_deadline: config.renew_deadline,
            retry_period: config.retry_period,
            coordinated: false,
        }
    }

    /// The duration that the lease records, after which others may take it: in whole seconds.
    pub fn recorded_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// How long after the beginning of a renewal the leader may write: until the middle between the renew deadline and the end
    /// of the lease. So a leader that still tries to renew within its deadline may write, and there is a margin for clock drift
    /// and pending writes before the next leader begins.
    ///
    /// Upstream accepts a renew deadline of 10.5 s for a lease of 10.9 s, which is recorded as 10 s. Then the margin is a twentieth of
    /// that, and a leader may not write for all of its deadline.
    pub fn validity(&self) -> Duration {
        let lease = self.recorded_duration();
        let renewing = Some(self.renew_deadline).filter(|deadline| *deadline < lease);
        (renewing.unwrap_or(lease * 9 / 10) + lease) / 2
    }

    /// How long after a leader has stopped, at the latest, no other process can lead.
    pub fn margin(&self) -> Duration {
        self.recorded_duration() - self.validity()
    }
}

/// `{hostname}_{uuid}`, as upstream: readable, and different after every restart.
pub fn identity() -> String {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned());
    format!("{hostname}_{}", uuid::Uuid::new_v4())
}

/// The problems in the configuration, one sentence each; none if leader election is disabled.
pub fn problems(config: &LeaderElection) -> Vec<String> {
    if !config.leader_elect {
        return vec![];
    }
    let mut problems = vec![];
    let durations = [
        ("leader-elect-lease-duration", config.lease_duration),
        ("leader-elect-renew-deadline", config.renew_deadline),
        ("leader-elect-retry-period", config.retry_period),
    ];
    for (flag, duration) in durations {
        if duration.is_zero() {
            problems.push(format!("--{flag} must be greater than zero"));
        }
    }
    if config.lease_duration <= config.renew_deadline {
        problems.push(format!(
            "--leader-elect-lease-duration ({:?}) must be longer than --leader-elect-renew-deadline ({:?})",
            config.lease_duration, config.renew_deadline
        ));
    } else if config.lease_duration < Duration::from_secs(1) {
        problems.push("--leader-elect-lease-duration must be at least one second".to_owned());
    }
    if config.renew_deadline <= config.retry_period.mul_f64(JITTER_FACTOR) {
        problems.push(format!(
            "--leader-elect-renew-deadline ({:?}) must be longer than {JITTER_FACTOR} times \
             --leader-elect-retry-period ({:?})",
            config.renew_deadline, config.retry_period
        ));
    }
    if config.resource_lock != "leases" {
        problems
            .push(format!("--leader-elect-resource-lock must be \"leases\", not {:?}", config.resource_lock));
    }
    let names = [
        ("leader-elect-resource-name", &config.resource_name),
        ("leader-elect-resource-namespace", &config.resource_namespace),
    ];
    for (flag, name) in names {
        if name.is_empty() {
            problems.push(format!("--{flag} must not be empty"));
        }
    }
    problems
}

/// A watch of one object, from the state of it that was last seen.
fn watch_of(namespace: &str, name: &str, seen: &Value, timeout: Duration) -> WatchParams {
    WatchParams {
        namespace: Some(namespace.into()),
        field_selector: Some(format_smolstr!("metadata.name={name}")),
        resource_version: seen["metadata"]["resourceVersion"].as_str().map(Into::into),
        timeout_seconds: u32::try_from(timeout.as_secs()).ok(),
        ..WatchParams::default()
    }
}
