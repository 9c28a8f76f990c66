//! What an API server serves beyond its defaults: the same settings for a real one and for the embedded one.

use std::collections::{BTreeMap, BTreeSet};

use flyball_runtime::gates::find;
use flyball_runtime::version::Versions;
use serde::Deserialize;

/// Gates that are enabled in every test cluster, though not by default: without this one the server drops a field that
/// StatefulSets are tested with.
const USUAL: [&str; 1] = ["MaxUnavailableStatefulSet"];

/// Differences from the API server's default settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Features {
    /// Feature gates, and whether they are enabled.
    #[serde(default)]
    feature_gates: BTreeMap<String, bool>,
    /// Versions of the API, as in `resource.k8s.io/v1beta2`, and whether they are served.
    #[serde(default)]
    runtime_config: BTreeMap<String, bool>,
}

impl Features {
    /// The flags of kube-apiserver for them.
    pub(crate) fn flags(&self) -> Vec<String> {
        let list = |map: &BTreeMap<String, bool>| {
            let pairs: Vec<String> = map.iter().map(|(name, on)| format!("{name}={on}")).collect();
            pairs.join(",")
        };
        let mut flags = vec![format!("--feature-gates={}", list(&self.gates()))];
        if !self.runtime_config.is_empty() {
            flags.push(format!("--runtime-config={}", list(&self.runtime_config)));
        }
        flags
    }

    /// The enabled gates, without those that upstream enables by default: the embedded server has no gates for them.
    pub(crate) fn open_gates(&self) -> BTreeSet<String> {
        let is_open_anyway = |name: &String| {
            find(name).and_then(|gate| gate.at(Versions::default())).is_some_and(|spec| spec.default)
        };
        on(self.gates()).into_iter().filter(|name| !is_open_anyway(name)).collect()
    }

    /// The versions that are served though not by default.
    pub(crate) fn served(&self) -> BTreeSet<String> {
        on(self.runtime_config.clone())
    }

    fn gates(&self) -> BTreeMap<String, bool> {
        let mut gates: BTreeMap<String, bool> = USUAL.map(|name| (name.to_owned(), true)).into();
        gates.extend(self.feature_gates.clone());
        gates
    }
}

fn on(map: BTreeMap<String, bool>) -> BTreeSet<String> {
    map.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_may_open_gates_and_close_the_usual_one() {
        let features = |text: &str| serde_json::from_str::<Features>(text).unwrap();
        let usual = features("{}");
        assert_eq!(usual.flags(), ["--feature-gates=MaxUnavailableStatefulSet=true"]);
        let further = features(
            r#"{"featureGates": {"GenericWorkload": true, "MaxUnavailableStatefulSet": false},
                "runtimeConfig": {"scheduling.k8s.io/v1alpha2": true}}"#,
        );
        assert_eq!(
            further.flags(),
            [
                "--feature-gates=GenericWorkload=true,MaxUnavailableStatefulSet=false",
                "--runtime-config=scheduling.k8s.io/v1alpha2=true",
            ]
        );
        assert_eq!(further.open_gates(), ["GenericWorkload".to_owned()].into());
        let usual =
            features(r#"{"featureGates": {"JobManagedBy": true, "HPAScaleToZero": true}}"#).open_gates();
        assert_eq!(usual, ["HPAScaleToZero".to_owned(), "MaxUnavailableStatefulSet".to_owned()].into());
        assert_eq!(further.served(), ["scheduling.k8s.io/v1alpha2".to_owned()].into());
    }

    #[test]
    fn a_misspelt_key_is_named() {
        let error = serde_json::from_str::<Features>(r#"{"featuregates": {}}"#).unwrap_err().to_string();
        assert!(error.contains("featuregates") && error.contains("featureGates"), "{error}");
    }
}
