//! Which objects a quota counts: its scopes, in both ways of writing them. All must hold.

use flyball_api::pod::{Pod, QosClass};
use flyball_api::resource_quota::{ResourceQuotaSpec, ScopeRequirement};
use flyball_api::{PersistentVolumeClaim, Quantity, RawJson, ResourceList};
use serde::Deserialize;
use serde::de::IgnoredAny;
use smol_str::SmolStr;

/// The scopes of one quota. Without any, everything counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(Vec<ScopeRequirement>);

impl Scopes {
    /// The scopes of a quota.
    pub fn of(spec: &ResourceQuotaSpec) -> Self {
        let plain = spec.scopes.iter().map(|scope| ScopeRequirement {
            scope_name: scope.clone(),
            operator: SmolStr::new_static("Exists"),
            values: vec![],
        });
        let selected = spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.clone());
        Self(plain.chain(selected).collect())
    }

    /// Whether there are none. Objects of kinds that no scope describes count only then.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a pod is in all of them.
    pub fn hold_pod(&self, pod: &Pod, pod_level: bool) -> bool {
        self.0.iter().all(|scope| holds_pod(scope, pod, pod_level))
    }

    /// Whether a claim is in all scopes. Of a claim, only its VolumeAttributesClass has a scope.
    pub fn hold_claim(&self, claim: &PersistentVolumeClaim) -> bool {
        self.0.iter().all(|scope| {
            let names = attributes_classes(claim);
            scope.scope_name == "VolumeAttributesClass"
                && match names.as_slice() {
                    [] => holds(scope, None),
                    names => names.iter().any(|name| holds(scope, Some(name))),
                }
        })
    }
}

fn holds_pod(scope: &ScopeRequirement, pod: &Pod, pod_level: bool) -> bool {
    match scope.scope_name.as_str() {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod, pod_level),
        "NotBestEffort" => !is_best_effort(pod, pod_level),
        "PriorityClass" => {
            let class = pod.spec.rare().priority_class_name.as_str();
            holds(scope, Some(class).filter(|class| !class.is_empty()))
        }
        "CrossNamespacePodAffinity" => pod.spec.rare().affinity.as_ref().is_some_and(looks_beyond_namespace),
        _ => false,
    }
}

/// Whether a scope with an operator holds for an object that has this name, or none, in it.
fn holds(scope: &ScopeRequirement, name: Option<&str>) -> bool {
    let listed = |name: &str| scope.values.iter().any(|value| value == name);
    match scope.operator.as_str() {
        "Exists" => name.is_some(),
        "DoesNotExist" => name.is_none(),
        "In" => name.is_some_and(listed),
        "NotIn" => !name.is_some_and(listed),
        // The server accepts no other scope.
        _ => false,
    }
}

/// Whether a pod will end by itself, at the latest after its deadline.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.spec.rare().active_deadline_seconds.is_some_and(|seconds| seconds >= 0)
}

/// Whether a pod has the QoS class BestEffort, by its status or else by its requests and limits.
fn is_best_effort(pod: &Pod, pod_level: bool) -> bool {
    if pod.status.qos_class != QosClass::Unset {
        return pod.status.qos_class == QosClass::BestEffort;
    }
    let asks = |list: &ResourceList| {
        ["cpu", "memory"].iter().any(|name| list.get(name).is_some_and(|amount| amount > Quantity::ZERO))
    };
    if let Some(own) = pod.spec.rare().resources.as_ref().filter(|_| pod_level) {
        return !asks(&own.requests) && !asks(&own.limits);
    }
    let mut containers = pod.spec.all_containers();
    !containers.any(|container| asks(&container.resources.requests) || asks(&container.resources.limits))
}

/// The attributes classes that a claim has, had or will have, each once.
pub fn attributes_classes(claim: &PersistentVolumeClaim) -> Vec<SmolStr> {
    let status = &claim.status;
    let target =
        status.modify_volume_status.as_ref().map(|to| to.target_volume_attributes_class_name.clone());
    let wanted = claim.spec.volume_attributes_class_name.clone();
    let named = [wanted, status.current_volume_attributes_class_name.clone(), target];
    let mut names: Vec<SmolStr> = named.into_iter().flatten().filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The namespaces in a pod's affinity.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    pod_affinity: Option<Terms>,
    pod_anti_affinity: Option<Terms>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Terms {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Vec<Term>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Option<Vec<Weighted>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Weighted {
    pod_affinity_term: Term,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    namespaces: Option<Vec<IgnoredAny>>,
    namespace_selector: Option<IgnoredAny>,
}

impl Term {
    fn is_beyond(&self) -> bool {
        self.namespace_selector.is_some() || self.namespaces.as_ref().is_some_and(|names| !names.is_empty())
    }
}

fn looks_beyond_namespace(affinity: &RawJson) -> bool {
    let Ok(affinity) = affinity.to::<Affinity>() else { return false };
    let mut terms = [affinity.pod_affinity, affinity.pod_anti_affinity].into_iter().flatten();
    terms.any(|terms| {
        terms.required.iter().flatten().any(Term::is_beyond)
            || terms.preferred.iter().flatten().any(|weighted| weighted.pod_affinity_term.is_beyond())
    })
}
