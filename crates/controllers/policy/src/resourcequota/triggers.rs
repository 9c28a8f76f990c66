//! Which changes need a sync of quotas. Pure.
//!
//! The API server adds to the usage when it admits an object, and never subtracts. So this controller reacts to changes
//! after which less is used.

use flyball_api::pod::{ContainerStatus, Pod};
use flyball_api::{Key, PersistentVolumeClaim, ResourceQuota, Service, Timestamp};
use flyball_cache::{Change, MetaChange};

use super::scopes::is_terminating;
use super::usage::pods::is_living;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Its status has no usage, so that the API server admits nothing.
    Missing,
    /// Its status may be out of date.
    Routine,
}

/// A new quota, or one with new limits. Changes of the status alone need no sync.
pub fn quota_changed(
    change: &Change<'_, ResourceQuota>,
    is_measured: impl Fn(&str) -> bool,
) -> Option<(Key, Urgency)> {
    let quota = change.new?;
    if change.old.is_some_and(|old| old.spec.hard.same_amounts(&quota.spec.hard)) {
        return None;
    }
    let status = &quota.status;
    let lacks = |name: &str| status.used.get(name).is_none() && is_measured(name);
    let is_missing =
        !quota.spec.hard.same_amounts(&status.hard) || status.hard.iter().any(|(name, _)| lacks(name));
    Some((quota.metadata.key(), if is_missing { Urgency::Missing } else { Urgency::Routine }))
}

/// Whether an object of any kind was deleted.
pub fn is_deleted(change: &MetaChange<'_>) -> bool {
    change.new.is_none()
}

/// Whether a pod may use less, or is in other scopes.
pub fn pod_uses_less(change: &Change<'_, Pod>, resize: bool, now: Timestamp) -> bool {
    let Some(old) = change.old else { return false };
    let Some(new) = change.new else { return true };
    let ended = || is_living(old, now) && !is_living(new, now);
    resize && was_resized(old, new) || is_terminating(old) != is_terminating(new) || ended()
}

/// Whether the actual resources of a container have changed.
fn was_resized(old: &Pod, new: &Pod) -> bool {
    let differ = |old: &[ContainerStatus], new: &[ContainerStatus]| {
        old.iter().any(|before| {
            let after = new.iter().find(|after| after.name == before.name);
            after.is_some_and(|after| after.resources != before.resources)
        })
    };
    differ(&old.status.container_statuses, &new.status.container_statuses)
        || differ(&old.status.init_container_statuses, &new.status.init_container_statuses)
}

/// Whether a Service may use fewer node ports or load balancers.
pub fn service_uses_less(change: &Change<'_, Service>) -> bool {
    let counted = |service: &Service| {
        let type_ = service.spec.type_.as_str();
        matches!(type_, "NodePort" | "LoadBalancer").then(|| type_.to_owned())
    };
    let Some(old) = change.old else { return false };
    change.new.is_none_or(|new| counted(old) != counted(new))
}

/// Whether a claim may use fewer bytes, or has another attributes class.
// Upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go, RequiresQuotaReplenish compares pointers that are
// never equal, so that any update counts.
pub fn claim_uses_less(change: &Change<'_, PersistentVolumeClaim>) -> bool {
    change.old.is_some_and(|old| {
        change.new.is_none_or(|new| old.metadata.resource_version != new.metadata.resource_version)
    })
}
