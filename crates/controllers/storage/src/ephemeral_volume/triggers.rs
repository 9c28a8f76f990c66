//! Which pods to look at after a change.

use flyball_api::pod::{Pod, VolumeSource};
use flyball_api::{Key, Object, PersistentVolumeClaim};
use flyball_cache::{Change, Store};

use crate::usage::pods_of;

/// A new pod that needs claims. Its volumes cannot change, so that changes of it are no news; but another pod may take
/// its name between two looks.
pub fn pod_changed(change: &Change<'_, Pod>) -> Option<Key> {
    let new = change.new?;
    let is_new = change.old.is_none_or(|old| old.metadata.uid != new.metadata.uid);
    (is_new && wants_claims(new)).then(|| change.key())
}

/// The pods whose claim is gone: it is made again.
pub fn claim_changed(change: &Change<'_, PersistentVolumeClaim>, pods: &Store<Pod>) -> Vec<Key> {
    if change.new.is_some() {
        return vec![];
    }
    let users = pods_of(pods, &change.key());
    users.iter().filter(|pod| wants_claims(pod)).map(|pod| pod.key()).collect()
}

/// Whether a pod stays and has ephemeral volumes.
fn wants_claims(pod: &Pod) -> bool {
    let mut volumes = pod.spec.volumes.iter();
    !pod.is_deleting() && volumes.any(|volume| matches!(volume.source, VolumeSource::Ephemeral(_)))
}
