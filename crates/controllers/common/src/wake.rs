//! Which owners are synced when an object changes: its controller, its former controller, or, for an orphan, the owners
//! that could adopt it.

use std::sync::Arc;

use flyball_api::{Key, Object, ObjectMeta, Resource, Selector};
use flyball_cache::{Change, Origin, Store};

/// The owners of kind `O` to sync after a change. `selector` is what an owner would adopt; an owner with an invalid or
/// empty selector adopts nothing.
pub fn owners<T: Object, O: Resource>(
    change: &Change<'_, T>,
    owners: &Store<O>,
    selector: impl Fn(&O) -> Option<Selector>,
) -> Vec<Key> {
    if change.origin == Origin::Resync {
        return vec![];
    }
    let controlling = |object: Option<&Arc<T>>| controller(object?.meta(), owners).map(|owner| owner.key());
    let (before, after) = (controlling(change.old), controlling(change.new));
    let mut keys: Vec<Key> = before.into_iter().chain(after).collect();
    keys.dedup();
    if let Some(orphan) = change.new.filter(|object| is_new_orphan(change, object.meta())) {
        let wants = |owner: &&Arc<O>| {
            let selector = selector(owner).filter(|selector| !selector.is_empty());
            selector.is_some_and(|selector| selector.matches(&orphan.meta().labels))
        };
        keys.extend(
            owners.in_namespace(&orphan.meta().namespace).iter().filter(wants).map(|owner| owner.key()),
        );
    }
    keys
}

/// The owner of kind `O` that controls an object; not another one of the same name. Its uid identifies it, so the API
/// group of the reference does not matter: old references have groups that are no longer served.
pub fn controller<O: Resource>(object: &ObjectMeta, owners: &Store<O>) -> Option<Arc<O>> {
    let reference = object.controller()?;
    if reference.kind != O::TYPE.kind {
        return None;
    }
    let key = Key::new(object.namespace.as_str(), reference.name.as_str());
    owners.get(&key).filter(|owner| *owner.uid() == reference.uid)
}

/// Whether this change orphaned the object, or relabelled an orphan.
fn is_new_orphan<T: Object>(change: &Change<'_, T>, object: &ObjectMeta) -> bool {
    object.controller().is_none()
        && !object.is_deleting()
        && change
            .old
            .is_none_or(|old| old.meta().labels != object.labels || old.meta().controller().is_some())
}
