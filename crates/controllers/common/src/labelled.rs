//! Indexes by label, so that finding the pods of a selector, or the selectors of a pod, does not scan a namespace.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Labels, Selector};
use flyball_cache::{Index, Store};
use rustc_hash::FxHasher;
use smol_str::{SmolStr, format_smolstr};

/// Pods by each of their labels.
pub const PODS_BY_LABEL: Index<Pod> = Index::new("label", |pod, emit| {
    for (key, value) in pod.metadata.labels.iter() {
        emit(&digest(&pod.metadata.namespace, Some((key, value))));
    }
});

/// An index key for a label in a namespace, or for the namespace as a whole, short enough to be stored inline.
/// After a look-up the labels themselves are checked, so a collision of digests costs only time.
pub fn digest(namespace: &str, label: Option<(&str, &str)>) -> SmolStr {
    let mut hasher = FxHasher::default();
    (namespace, label).hash(&mut hasher);
    format_smolstr!("{:016x}", hasher.finish())
}

/// The keys under which an index by one label of the selector holds the objects that may select these labels.
pub fn selector_keys<'a>(namespace: &'a str, labels: &'a Labels) -> impl Iterator<Item = SmolStr> + 'a {
    labels.iter().map(Some).chain([None]).map(move |label| digest(namespace, label))
}

pub fn has_all(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The pods of a namespace that have all of these labels, by name. Needs [`PODS_BY_LABEL`].
pub fn pods_with(pods: &Store<Pod>, namespace: &str, wanted: &Labels) -> Vec<Arc<Pod>> {
    found_by(pods, namespace, wanted.iter(), |labels| has_all(labels, wanted))
}

/// The pods of a namespace that a selector matches, by name. Needs [`PODS_BY_LABEL`].
pub fn pods_selected(pods: &Store<Pod>, namespace: &str, selector: &Selector) -> Vec<Arc<Pod>> {
    if selector.is_nothing() {
        return vec![];
    }
    found_by(pods, namespace, selector.required(), |labels| selector.matches(labels))
}

/// The matching pods, searched among those with the rarest required label.
fn found_by<'a>(
    pods: &Store<Pod>,
    namespace: &str,
    required: impl Iterator<Item = (&'a str, &'a str)>,
    matches: impl Fn(&Labels) -> bool,
) -> Vec<Arc<Pod>> {
    let keys = required.map(|label| digest(namespace, Some(label)));
    let rarest = keys.min_by_key(|key| pods.count_by(&PODS_BY_LABEL, key));
    let mut found = match rarest {
        Some(key) => pods.by(&PODS_BY_LABEL, &key),
        None => pods.in_namespace(namespace),
    };
    found.retain(|pod| pod.metadata.namespace == namespace && matches(&pod.metadata.labels));
    found.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    found
}
