//! Which claims to look at after a change.

use flyball_api::pod::Pod;
use flyball_api::{Key, PersistentVolumeClaim, condition};
use flyball_cache::Change;

use super::plan::UNUSED;
use crate::finalizer::{Need, need};
use crate::usage::claims_of;

/// The claim, if it lacks something or is to go.
pub fn claim_changed(change: &Change<'_, PersistentVolumeClaim>, tells_unused: bool) -> Option<Key> {
    let claim = change.new?;
    let is_untold = tells_unused && condition::find(&claim.status.conditions, UNUSED).is_none();
    (is_untold || need(&**claim) != Need::Nothing).then(|| change.key())
}

/// The claims of a pod that may no longer need them. A pod may hide that another one of its name is gone.
pub fn pod_changed(change: &Change<'_, Pod>, tells_unused: bool) -> Vec<Key> {
    let gone = match (change.old, change.new) {
        (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid => Some(old),
        (Some(old), None) => Some(old),
        _ => None,
    };
    let pods = change.new.filter(|pod| tells_unused || !runs(pod)).into_iter().chain(gone);
    pods.flat_map(|pod| claims_of(pod)).collect()
}

/// Whether a pod is on a node and meant to stay there: what it uses is not given up by this change.
fn runs(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty() && pod.is_active()
}
