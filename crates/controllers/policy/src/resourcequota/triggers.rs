//! Which changes call for a quota to be summed up anew.
//!
//! What takes more is booked by the API server as it lets it in. It books nothing back: what is given back is
//! for this controller to notice.

use flyball_api::pod::{ContainerStatus, Pod};
use flyball_api::{Key, PersistentVolumeClaim, ResourceQuota, Service, Timestamp};
use flyball_cache::{Change, MetaChange};

use super::scopes::is_terminating;
use super::usage::pods::is_living;

/// How long a quota can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Its status does not say what is used, so that the server lets nothing in.
    Missing,
    /// Its status may be behind.
    Routine,
}

/// A new quota, or one with new limits. Its status concerns nobody: only we and the server write it.
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

/// Whether an object of any kind gave back what it took.
pub fn is_gone(change: &MetaChange<'_>) -> bool {
    change.new.is_none()
}

/// Whether a pod may have given something back, or has moved from one scope to another.
pub fn pod_gave_back(change: &Change<'_, Pod>, resize: bool, now: Timestamp) -> bool {
    let Some(old) = change.old else { return false };
    let Some(new) = change.new else { return true };
    let ended = || is_living(old, now) && !is_living(new, now);
    resize && was_resized(old, new) || is_terminating(old) != is_terminating(new) || ended()
}

/// Whether the node has given a container more or less than before.
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

/// Whether a service may have given back node ports or a load balancer.
pub fn service_gave_back(change: &Change<'_, Service>) -> bool {
    let counted = |service: &Service| {
        let type_ = service.spec.type_.as_str();
        matches!(type_, "NodePort" | "LoadBalancer").then(|| type_.to_owned())
    };
    let Some(old) = change.old else { return false };
    change.new.is_none_or(|new| counted(old) != counted(new))
}

/// Whether a claim may have given bytes back, or has moved from one attributes class to another.
// Upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go, RequiresQuotaReplenish compares pointers that are
// never equal, so that any update does.
pub fn claim_gave_back(change: &Change<'_, PersistentVolumeClaim>) -> bool {
    change.old.is_some_and(|old| {
        change.new.is_none_or(|new| old.metadata.resource_version != new.metadata.resource_version)
    })
}
