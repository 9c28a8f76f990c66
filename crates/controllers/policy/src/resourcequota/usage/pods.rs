//! What pods use of a quota.

use std::sync::Arc;

use flyball_api::pod::{Phase, Pod, ResourceOptions};
use flyball_api::time::SignedDuration;
use flyball_api::{Quantity, ResourceList, Timestamp};

use super::Features;
use crate::resourcequota::names::OfPods;
use crate::resourcequota::scopes::Scopes;

/// What the pods in scope use of each of `names`.
pub fn usage(
    pods: &[Arc<Pod>],
    names: &[&str],
    scopes: &Scopes,
    features: Features,
    now: Timestamp,
) -> ResourceList {
    let mut sums: Vec<(&str, OfPods<'_>, Quantity)> =
        names.iter().filter_map(|name| Some((*name, OfPods::parse(name)?, Quantity::ZERO))).collect();
    let asks = sums.iter().any(|(_, of, _)| matches!(of, OfPods::Requests(_)));
    let limits = sums.iter().any(|(_, of, _)| matches!(of, OfPods::Limits(_)));
    let in_scope = |pod: &&Arc<Pod>| scopes.is_empty() || scopes.hold_pod(pod, features.pod_level_resources);
    for pod in pods.iter().filter(in_scope) {
        let living = is_living(pod, now);
        let needs = |wanted: bool, list: fn(&Pod, ResourceOptions) -> ResourceList| match wanted && living {
            true => list(pod, features.pod_options()),
            false => ResourceList::default(),
        };
        let (requests, limits) = (needs(asks, Pod::requests), needs(limits, Pod::limits));
        for (_, of, sum) in &mut sums {
            *sum += match of {
                OfPods::Objects => Quantity::new(1),
                OfPods::Living => Quantity::new(i64::from(living)),
                OfPods::Requests(resource) => requests.get(resource).unwrap_or_default(),
                OfPods::Limits(resource) => limits.get(resource).unwrap_or_default(),
            };
        }
    }
    sums.into_iter().map(|(name, _, sum)| (name, sum)).collect()
}

/// Whether a pod still takes something: it has not ended, and is not stuck at its end (a lost node must not
/// keep its owner from making a replacement).
pub fn is_living(pod: &Pod, now: Timestamp) -> bool {
    if matches!(pod.status.phase, Phase::Failed | Phase::Succeeded) {
        return false;
    }
    let meta = &pod.metadata;
    let (Some(deleted), Some(grace)) = (meta.deletion_timestamp, meta.deletion_grace_period_seconds) else {
        return true;
    };
    // A grace beyond the calendar never ends.
    !deleted.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now > end)
}
