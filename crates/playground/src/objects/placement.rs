//! Rules of placement in a pod's spec.

use flyball_api::LabelSelector;
use flyball_api::de::null_default;
use flyball_common::nodeaffinity::{NodeSelector, Term};
use serde::Deserialize;
use smol_str::SmolStr;

/// Where a pod must and should run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
    pub pod_affinity: Option<PodAffinity>,
    pub pod_anti_affinity: Option<PodAffinity>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_default")]
    pub preferred: Vec<PreferredNodeTerm>,
}

/// A node term with a weight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PreferredNodeTerm {
    /// 1 to 100.
    pub weight: i64,
    pub preference: Term,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_default")]
    pub required: Vec<PodTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_default")]
    pub preferred: Vec<WeightedPodTerm>,
}

/// Other pods within a topology.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodTerm {
    /// Which pods; absent for none.
    pub label_selector: Option<LabelSelector>,
    /// In these namespaces; with no selector either, in the pod's own.
    #[serde(deserialize_with = "null_default")]
    pub namespaces: Vec<SmolStr>,
    /// And in namespaces with these labels.
    pub namespace_selector: Option<LabelSelector>,
    /// The topology key: nodes with the same value of this label are one domain.
    pub topology_key: SmolStr,
}

/// A pod term with a weight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPodTerm {
    /// 1 to 100.
    pub weight: i64,
    pub pod_affinity_term: PodTerm,
}

/// How evenly pods should be spread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// By how many pods a domain may exceed the emptiest.
    pub max_skew: i64,
    /// The label whose value is the domain.
    pub topology_key: SmolStr,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: SmolStr,
    pub label_selector: Option<LabelSelector>,
    /// With fewer domains, the minimum counts as zero.
    pub min_domains: Option<i64>,
    /// `Honor` (the default) or `Ignore` node selector and affinity when looking for domains.
    pub node_affinity_policy: Option<SmolStr>,
    /// `Honor` or `Ignore` (the default) taints when looking for domains.
    pub node_taints_policy: Option<SmolStr>,
    /// Labels of the pod whose values further select which pods count.
    #[serde(deserialize_with = "null_default")]
    pub match_label_keys: Vec<SmolStr>,
}
