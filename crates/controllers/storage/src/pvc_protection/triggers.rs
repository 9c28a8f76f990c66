//! Which claims to sync after a change. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, PersistentVolumeClaim, condition};
use flyball_cache::Change;

use super::plan::UNUSED;
use crate::finalizer;
use crate::usage::claims_of;

/// The claim, if it lacks its condition or finalizer, or is being deleted.
pub fn claim_changed(change: &Change<'_, PersistentVolumeClaim>, reports_unused: bool) -> Option<Key> {
    let claim = change.new?;
    let lacks_condition = reports_unused && condition::find(&claim.status.conditions, UNUSED).is_none();
    (lacks_condition || finalizer::is_due(&**claim)).then(|| change.key())
}

/// The claims of a pod that may no longer need them. After a relist, a pod may have replaced another of its name.
pub fn pod_changed(change: &Change<'_, Pod>, reports_unused: bool) -> Vec<Key> {
    let gone = match (change.old, change.new) {
        (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid => Some(old),
        (Some(old), None) => Some(old),
        _ => None,
    };
    let pods = change.new.filter(|pod| reports_unused || !runs(pod)).into_iter().chain(gone);
    pods.flat_map(|pod| claims_of(pod)).collect()
}

/// Whether a pod is on a node and active, so that it keeps its claims.
fn runs(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty() && pod.is_active()
}
