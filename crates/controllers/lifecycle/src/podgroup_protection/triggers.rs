//! Which groups to look at after a change.

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PartialObject};
use flyball_cache::Change;

use super::FINALIZER;

/// The group that a pod names.
pub fn group_of(pod: &Pod) -> Option<Key> {
    let name = &pod.spec.rare().pod_group_name;
    (!name.is_empty()).then(|| Key::new(pod.meta().namespace.as_str(), name.as_str()))
}

/// Whether a group is being deleted and waits for us.
pub fn waits(group: &PartialObject) -> bool {
    group.meta().is_deleting() && group.meta().has_finalizer(FINALIZER)
}

pub fn group_changed(change: &Change<'_, PartialObject>) -> Option<Key> {
    change.new.filter(|group| waits(group)).map(|_| change.key())
}

/// The groups of a pod that is over, that is gone, or whose name another pod has taken.
pub fn pod_changed(change: &Change<'_, Pod>) -> Vec<Key> {
    let over = change.new.filter(|pod| pod.is_finished());
    let gone = change.old.filter(|old| change.new.is_none_or(|new| new.meta().uid != old.meta().uid));
    over.into_iter().chain(gone).filter_map(|pod| group_of(pod)).collect()
}
