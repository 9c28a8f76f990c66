//! The labels of a Node that come from its cloud. Pure.

use std::collections::BTreeMap;

use flyball_api::{Labels, topology};
use smol_str::SmolStr;

use crate::Metadata;

/// Labels with two keys: the beta key, which wins where both are set, and the GA key.
pub const TWINS: [(&str, &str); 3] = [
    (topology::BETA_ZONE, topology::ZONE),
    (topology::BETA_REGION, topology::REGION),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// The GA labels that differ from their beta twins, with the values that they should have. A GA label without a twin is
/// left alone.
pub fn drifted(labels: &Labels) -> BTreeMap<&'static str, SmolStr> {
    let wanted = TWINS.iter().filter_map(|(beta, ga)| Some((*ga, labels.get(beta)?)));
    let wrong = wanted.filter(|(ga, value)| labels.get(ga) != Some(value));
    wrong.map(|(ga, value)| (ga, value.into())).collect()
}

/// The labels of the cloud for a Node that is initialised.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Initial {
    pub set: BTreeMap<SmolStr, SmolStr>,
    /// The keys of the labels that are not set.
    pub ignored: Vec<(SmolStr, Ignored)>,
}

/// Why a label of the cloud is not set on a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    #[error("a cloud may not set labels of Kubernetes")]
    OfKubernetes,
    #[error("the node has this label with another value")]
    OtherValue,
}

/// The labels to set on a Node when it is initialised.
pub fn initial(metadata: &Metadata, present: &Labels) -> Initial {
    let values = [&metadata.zone, &metadata.region, &metadata.instance_type];
    let known = TWINS.iter().zip(values).filter(|(_, value)| !value.is_empty());
    let mut set: BTreeMap<SmolStr, SmolStr> = known
        .flat_map(|((beta, ga), value)| {
            [(SmolStr::new_static(beta), value), (SmolStr::new_static(ga), value)]
        })
        .map(|(key, value)| (key, value.clone()))
        .collect();
    let mut ignored = vec![];
    for (key, value) in &metadata.labels {
        match (is_of_kubernetes(key), present.get(key)) {
            (true, _) => ignored.push((key.clone(), Ignored::OfKubernetes)),
            (false, Some(has)) if has != value => ignored.push((key.clone(), Ignored::OtherValue)),
            (false, Some(_)) => {}
            (false, None) => {
                set.insert(key.clone(), value.clone());
            }
        }
    }
    Initial { set, ignored }
}

/// Whether the prefix of a key is `kubernetes.io`, `k8s.io`, or a subdomain of these.
fn is_of_kubernetes(key: &str) -> bool {
    let domains = key.match_indices('/').map(|(end, _)| &key[..end]);
    domains.into_iter().any(|domain| {
        ["kubernetes.io", "k8s.io"].iter().any(|own| {
            domain.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
    })
}
