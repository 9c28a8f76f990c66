//! Whether a pod is active, ready, and available.

use jiff::SignedDuration;

use super::{ConditionStatus, ContainerState, ContainerStatus, Phase, Pod, PodCondition, PodConditionType};
use crate::time::Timestamp;

impl Pod {
    /// Whether it counts as a running replica: neither finished nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_none()
    }

    /// Whether all its containers have terminated.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether it is being deleted and has not terminated yet.
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_some()
    }

    /// Whether no container runs or will run: it has terminated, or is being deleted and no container runs.
    pub fn has_stopped(&self) -> bool {
        let status = &self.status;
        let all = [
            &status.init_container_statuses,
            &status.container_statuses,
            &status.rare().ephemeral_container_statuses,
        ];
        let is_idle = |container: &ContainerStatus| {
            matches!(container.state, ContainerState::Waiting { .. } | ContainerState::Terminated(_))
        };
        let is_idle = || all.into_iter().flatten().all(is_idle);
        self.is_finished() || (self.metadata.deletion_timestamp.is_some() && is_idle())
    }

    pub fn is_ready(&self) -> bool {
        self.ready_condition().is_some_and(|ready| ready.status == ConditionStatus::True)
    }

    /// Since when it has been ready; `None` if it is not.
    pub fn ready_since(&self) -> Option<Timestamp> {
        self.ready_condition().filter(|ready| ready.status == ConditionStatus::True)?.last_transition_time()
    }

    /// Whether it has been ready for `min_ready_seconds` at `now`.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let settled = || self.available_at(min_ready_seconds).is_some_and(|at| at <= now);
        self.is_ready() && (min_ready_seconds == 0 || settled())
    }

    /// When it will have been ready for `min_ready_seconds`, if it stays ready.
    pub fn available_at(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        self.ready_since()?.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()
    }

    pub fn ready_condition(&self) -> Option<&PodCondition> {
        self.status.condition(&PodConditionType::Ready)
    }
}
