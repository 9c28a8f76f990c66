//! Which pods to sync after a change.

use flyball_api::pod::{Pod, VolumeSource};
use flyball_api::{Key, Object, PersistentVolumeClaim};
use flyball_cache::{Change, Store};

use crate::usage::pods_of;

/// A new pod that needs claims. The volumes of a pod cannot change, but after a relist another pod may have its name.
pub fn pod_changed(change: &Change<'_, Pod>) -> Option<Key> {
    let new = change.new?;
    let is_new = change.old.is_none_or(|old| old.metadata.uid != new.metadata.uid);
    (is_new && needs_claims(new)).then(|| change.key())
}

/// The pods whose claim was deleted: it is created again.
pub fn claim_changed(change: &Change<'_, PersistentVolumeClaim>, pods: &Store<Pod>) -> Vec<Key> {
    if change.new.is_some() {
        return vec![];
    }
    let users = pods_of(pods, &change.key());
    users.iter().filter(|pod| needs_claims(pod)).map(|pod| pod.key()).collect()
}

/// Whether a pod has ephemeral volumes and is not being deleted.
fn needs_claims(pod: &Pod) -> bool {
    let mut volumes = pod.spec.volumes.iter();
    !pod.is_deleting() && volumes.any(|volume| matches!(volume.source, VolumeSource::Ephemeral(_)))
}
