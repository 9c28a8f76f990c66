//! Which groups to reconcile after a change. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PartialObject};
use flyball_cache::Change;

use super::FINALIZER;

/// The group that a pod names.
pub fn group_of(pod: &Pod) -> Option<Key> {
    let name = &pod.spec.rare().pod_group_name;
    (!name.is_empty()).then(|| Key::new(pod.meta().namespace.as_str(), name.as_str()))
}

/// Whether a group is being deleted and still has the finalizer.
pub fn needs_release(group: &PartialObject) -> bool {
    group.meta().is_deleting() && group.meta().has_finalizer(FINALIZER)
}

pub fn group_changed(change: &Change<'_, PartialObject>) -> Option<Key> {
    change.new.filter(|group| needs_release(group)).map(|_| change.key())
}

/// The groups of a pod that has finished, that is gone, or that was replaced by another of the same name.
pub fn pod_changed(change: &Change<'_, Pod>) -> Vec<Key> {
    let finished = change.new.filter(|pod| pod.is_finished());
    let gone = change.old.filter(|old| change.new.is_none_or(|new| new.meta().uid != old.meta().uid));
    finished.into_iter().chain(gone).filter_map(|pod| group_of(pod)).collect()
}
