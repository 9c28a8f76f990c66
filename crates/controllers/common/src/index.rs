//! Indexes that several controllers look objects up by.

use flyball_api::pod::Pod;
use flyball_api::{Object, Uid};
use flyball_cache::{Index, Store};
use std::sync::Arc;

/// Objects by the uid of their controller, and those without one by namespace.
pub fn by_controller<T: Object>() -> Index<T> {
    Index {
        name: "controller",
        keys: |object, emit| match object.meta().controller() {
            Some(owner) => emit(&owner.uid.to_smol_str()),
            None => emit(&orphans_of(&object.meta().namespace)),
        },
    }
}

/// Pods by the node that they run on.
pub fn by_node() -> Index<Pod> {
    Index {
        name: "node",
        keys: |pod, emit| {
            if !pod.spec.node_name.is_empty() {
                emit(&pod.spec.node_name);
            }
        },
    }
}

/// The objects that an owner in `namespace` controls, then the orphans of the namespace.
pub fn owned_or_orphaned<T: Object>(store: &Store<T>, namespace: &str, owner: &Uid) -> Vec<Arc<T>> {
    let mut found = owned(store, owner);
    found.extend(store.by(&by_controller(), &orphans_of(namespace)));
    found
}

pub fn owned<T: Object>(store: &Store<T>, owner: &Uid) -> Vec<Arc<T>> {
    store.by(&by_controller(), &owner.to_smol_str())
}

fn orphans_of(namespace: &str) -> String {
    // No uid contains a slash, so the two kinds of keys differ.
    format!("orphans/{namespace}")
}
