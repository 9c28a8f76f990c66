//! Which labels a Node should have, by what its cloud says. Pure.

use std::collections::BTreeMap;

use flyball_api::Labels;
use smol_str::SmolStr;

use crate::Metadata;

/// Labels that exist twice: the beta key, which counts where both are there, and the GA key.
pub const TWINS: [(&str, &str); 3] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// The GA labels that do not say what their beta twins say, with what they should say. A GA label without a twin is
/// left alone.
pub fn drifted(labels: &Labels) -> BTreeMap<&'static str, SmolStr> {
    let wanted = TWINS.iter().filter_map(|(beta, ga)| Some((*ga, labels.get(beta)?)));
    let wrong = wanted.filter(|(ga, value)| labels.get(ga) != Some(value));
    wrong.map(|(ga, value)| (ga, value.into())).collect()
}

/// What to set on a Node that is being initialised.
pub fn initial(metadata: &Metadata, present: &Labels) -> BTreeMap<SmolStr, SmolStr> {
    let values = [&metadata.zone, &metadata.region, &metadata.instance_type];
    let known = TWINS.iter().zip(values).filter(|(_, value)| !value.is_empty());
    let mut labels: BTreeMap<SmolStr, SmolStr> = known
        .flat_map(|((beta, ga), value)| {
            [(SmolStr::new_static(beta), value), (SmolStr::new_static(ga), value)]
        })
        .map(|(key, value)| (key, value.clone()))
        .collect();
    for (key, value) in &metadata.labels {
        match (is_of_kubernetes(key), present.get(key)) {
            (true, _) => tracing::warn!(%key, "a cloud may not set labels of Kubernetes; left out"),
            (false, Some(has)) if has != value => {
                tracing::warn!(%key, "the node has this label with another value; left alone");
            }
            (false, Some(_)) => {}
            (false, None) => {
                labels.insert(key.clone(), value.clone());
            }
        }
    }
    labels
}

/// Whether a key is in a namespace of Kubernetes' own: `kubernetes.io/`, `k8s.io/`, or below these.
fn is_of_kubernetes(key: &str) -> bool {
    let domains = key.match_indices('/').map(|(end, _)| &key[..end]);
    domains.into_iter().any(|domain| {
        ["kubernetes.io", "k8s.io"].iter().any(|own| {
            domain.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
    })
}
