//! Which sets a change of a pod concerns.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, OwnerReference};
use flyball_cache::{Change, Origin, Store};

use super::Replicated;

/// The sets to look at after a change of a pod: its controller, the one it had before, and, for a pod without
/// one, every set that could adopt it.
pub fn pod_changed<T: Replicated>(change: &Change<'_, Pod>, sets: &Store<T>) -> Vec<Key> {
    if change.origin == Origin::Resync {
        return vec![];
    }
    let controller = |pod: Option<&Arc<Pod>>| {
        let meta = &pod?.metadata;
        controlling(sets, &meta.namespace, meta.controller()?)
    };
    let (before, after) = (controller(change.old), controller(change.new));
    let mut keys: Vec<Key> = before.into_iter().chain(after).collect();
    keys.dedup();
    if let Some(orphan) = change.new.filter(|pod| pod.metadata.controller().is_none() && news(change, pod)) {
        keys.extend(adopters(sets, orphan));
    }
    keys
}

/// Whether an orphan's owner or labels are news, so that somebody may want it now.
fn news(change: &Change<'_, Pod>, pod: &Pod) -> bool {
    !pod.metadata.is_deleting()
        && change.old.is_none_or(|old| {
            old.metadata.labels != pod.metadata.labels || old.metadata.controller().is_some()
        })
}

/// The set a reference points to, unless another one has taken its name.
fn controlling<T: Replicated>(sets: &Store<T>, namespace: &str, owner: &OwnerReference) -> Option<Key> {
    if owner.kind != T::TYPE.kind || owner.group() != T::TYPE.group {
        return None;
    }
    let key = Key::new(namespace, owner.name.as_str());
    sets.get(&key).filter(|set| set.meta().uid == owner.uid).map(|_| key)
}

fn adopters<T: Replicated>(sets: &Store<T>, orphan: &Pod) -> Vec<Key> {
    let wants = |set: &&Arc<T>| {
        let selector = set.selector();
        selector.is_ok_and(|selector| !selector.is_empty() && selector.matches(&orphan.metadata.labels))
    };
    sets.in_namespace(&orphan.metadata.namespace).iter().filter(wants).map(|set| set.key()).collect()
}
