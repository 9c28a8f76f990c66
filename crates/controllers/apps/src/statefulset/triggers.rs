//! Which sets to sync after a change of a pod or a claim. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, PersistentVolumeClaim, Selector, StatefulSet};
use flyball_cache::{Change, Store};
use flyball_common::wake;

use super::identity::parent_and_ordinal;

/// The controller of the pod, its former controller, and, for a pod without a controller, every set that could adopt
/// it.
pub fn pod_changed(change: &Change<'_, Pod>, sets: &Store<StatefulSet>) -> Vec<Key> {
    wake::owners(change, sets, |set| Selector::from_object(set.spec.selector.as_ref()).ok())
}

/// The sets that may wait for the deletion of a claim, from its name: `<template>-<set>-<ordinal>`.
///
/// Upstream does not watch claims: a pod that needs the claim of its predecessor deleted waits there for the next event of
/// another pod.
pub fn claim_gone(change: &Change<'_, PersistentVolumeClaim>, sets: &Store<StatefulSet>) -> Vec<Key> {
    let (Some(gone), None) = (change.old, change.new) else { return vec![] };
    let meta = &gone.metadata;
    let Some((stem, _)) = parent_and_ordinal(&meta.name) else { return vec![] };
    let candidates = stem.match_indices('-').map(|(at, _)| stem.split_at(at));
    let is_theirs = |(template, rest): (&str, &str)| {
        let key = Key::new(meta.namespace.as_str(), rest.strip_prefix('-').unwrap_or(rest));
        let set = sets.get(&key)?;
        let has_template =
            set.spec.volume_claim_templates.iter().any(|claim| claim.metadata.name == template);
        has_template.then_some(key)
    };
    candidates.filter_map(is_theirs).collect()
}
