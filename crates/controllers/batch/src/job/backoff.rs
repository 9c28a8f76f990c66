//! The backoff before a failed pod is replaced: ten seconds after the first failure, doubled with each consecutive failure,
//! at most ten minutes. Pure, except for what is remembered between syncs.

use std::time::Duration;

use flyball_api::pod::{ConditionStatus, ContainerState, ContainerStatus, Pod};
use flyball_api::time::SignedDuration;
use flyball_api::{Job, Key, Timestamp, Uid};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The backoff after one failure.
pub const FIRST: Duration = Duration::from_secs(10);
pub const LONGEST: Duration = Duration::from_secs(600);

/// The consecutive failures of a Job. Only kept in memory: a restart resets them, as in upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    /// The number of consecutive failures.
    pub failures: u32,
    /// The time of the last failure.
    pub last: Option<Timestamp>,
}

/// The backoffs of Jobs that have not ended. Each has the uid of its Job, since another Job may get the name before a sync
/// sees that the first is gone.
#[derive(Debug, Default)]
pub struct Backoffs(Mutex<FxHashMap<Key, (Uid, Backoff)>>);

impl Backoffs {
    pub fn of(&self, job: &Job) -> Backoff {
        let backoffs = self.0.lock();
        let own = backoffs.get(&job.metadata.key()).filter(|(uid, _)| *uid == job.metadata.uid);
        own.map(|(_, backoff)| *backoff).unwrap_or_default()
    }

    pub fn keep(&self, job: &Job, backoff: Backoff) {
        self.0.lock().insert(job.metadata.key(), (job.metadata.uid.clone(), backoff));
    }

    pub fn forget(&self, job: &Key) {
        self.0.lock().remove(job);
    }
}

impl Backoff {
    /// The state after more pods have ended. A success resets the count; later failures count from zero.
    pub fn after(self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let count = |pods: usize| u32::try_from(pods).unwrap_or(u32::MAX);
        let Some(success) = succeeded.iter().map(|pod| finished_at(pod)).max() else {
            let Some(last) = failed.iter().map(|pod| finished_at(pod)).max() else { return self };
            return Self { failures: self.failures.saturating_add(count(failed.len())), last: Some(last) };
        };
        let later = failed.iter().map(|pod| finished_at(pod)).filter(|at| *at > success);
        Self { failures: count(later.clone().count()), last: later.max() }
    }

    pub fn remaining(&self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |last| remaining(self.failures, last, now))
    }
}

/// The remaining backoff after this many consecutive failures, the last of them at `last`.
pub fn remaining(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let factor = 1u32.checked_shl(doublings.min(31)).unwrap_or(u32::MAX);
    let wait = FIRST.saturating_mul(factor).min(LONGEST);
    // A failure in the future (clocks differ) makes the backoff longer, as in upstream.
    let left = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX) - now.duration_since(last);
    Duration::try_from(left).unwrap_or_default()
}

/// When a pod ended: with its last container; else when it became unready; else when it was deleted.
pub fn finished_at(pod: &Pod) -> Timestamp {
    let unready = || {
        let ready = pod.ready_condition().filter(|ready| ready.status == ConditionStatus::False)?;
        ready.last_transition_time()
    };
    let deleted = || {
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
        pod.metadata.deletion_timestamp?.checked_sub(grace).ok()
    };
    let created = || pod.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    containers_ended(pod).or_else(unready).or_else(deleted).unwrap_or_else(created)
}

/// When the last container ended, including sidecars; `None` if one has not.
fn containers_ended(pod: &Pod) -> Option<Timestamp> {
    let is_sidecar = |status: &&ContainerStatus| {
        let mut sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
        sidecars.any(|container| container.name == status.name)
    };
    let containers = latest_end(None, pod.status.container_statuses.iter());
    latest_end(containers, pod.status.init_container_statuses.iter().filter(is_sidecar))
}

fn latest_end<'a>(
    before: Option<Timestamp>,
    statuses: impl Iterator<Item = &'a ContainerStatus>,
) -> Option<Timestamp> {
    let mut latest = before;
    for status in statuses {
        let ContainerState::Terminated(end) = &status.state else { return None };
        latest = latest.max(Some(end.finished_at?));
    }
    latest
}
