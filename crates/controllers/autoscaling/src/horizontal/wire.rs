//! The answers of the metrics APIs, as far as they are read.

use std::collections::BTreeMap;

use flyball_api::de::null_default;
use flyball_api::{ObjectMeta, Quantity, Timestamp, time};
use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};
use smol_str::SmolStr;

use super::replicas::{Sample, Samples};

/// Resource usage of pods, from `metrics.k8s.io`.
#[derive(Debug, Deserialize)]
pub(super) struct PodMetricsList {
    #[serde(default, deserialize_with = "null_default")]
    pub(super) items: Vec<PodMetrics>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodMetrics {
    metadata: ObjectMeta,
    #[serde(with = "time::seconds_opt")]
    timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "go_duration")]
    window: SignedDuration,
    #[serde(deserialize_with = "null_default")]
    containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerMetrics {
    name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    usage: BTreeMap<SmolStr, Quantity>,
}

fn go_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
    let text = SmolStr::deserialize(deserializer)?;
    time::parse_duration(&text).map_err(serde::de::Error::custom)
}

impl PodMetricsList {
    /// The usage of a resource by each pod, or by one container of each. A pod is left out if the usage of one of its
    /// containers is not known.
    pub(super) fn samples(&self, resource: &str, container: Option<&str>) -> Samples {
        let of = |pod: &PodMetrics| {
            let used =
                |container: &ContainerMetrics| container.usage.get(resource).map(Quantity::milli_value);
            let value = match container {
                Some(name) => {
                    pod.containers.iter().find(|container| container.name == name).and_then(used)?
                }
                None if pod.containers.is_empty() => return None,
                None => pod.containers.iter().try_fold(0_i64, |sum, c| Some(sum.saturating_add(used(c)?)))?,
            };
            Some((pod.metadata.name.clone(), Sample { value, at: pod.timestamp, window: pod.window }))
        };
        self.items.iter().filter_map(of).collect()
    }
}

/// Metrics of objects, from `custom.metrics.k8s.io` in any of its versions.
#[derive(Debug, Deserialize)]
pub(super) struct ObjectValues {
    #[serde(default, deserialize_with = "null_default")]
    pub(super) items: Vec<ObjectValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectValue {
    described_object: Described,
    #[serde(with = "time::seconds_opt")]
    timestamp: Option<Timestamp>,
    #[serde(alias = "window")]
    window_seconds: Option<i64>,
    pub(super) value: Quantity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Described {
    name: SmolStr,
}

/// The window of a metric that states none, in seconds.
const DEFAULT_WINDOW: i64 = 60;

impl ObjectValues {
    /// The value of each pod.
    pub(super) fn samples(&self) -> Samples {
        let of = |value: &ObjectValue| {
            let window = SignedDuration::from_secs(value.window_seconds.unwrap_or(DEFAULT_WINDOW));
            let sample = Sample { value: value.value.milli_value(), at: value.timestamp, window };
            (value.described_object.name.clone(), sample)
        };
        self.items.iter().map(of).collect()
    }
}

/// The series of a metric, from `external.metrics.k8s.io`.
#[derive(Debug, Deserialize)]
pub(super) struct ExternalValues {
    #[serde(default, deserialize_with = "null_default")]
    pub(super) items: Vec<ExternalValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExternalValue {
    value: Quantity,
}

impl ExternalValues {
    /// The sum of all series, saturating.
    pub(super) fn total(&self) -> i64 {
        self.items.iter().fold(0, |sum, series| sum.saturating_add(series.value.milli_value()))
    }
}

/// The groups that a server serves.
#[derive(Debug, Deserialize)]
pub(super) struct Groups {
    #[serde(default, deserialize_with = "null_default")]
    groups: Vec<Group>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Group {
    name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    versions: Vec<GroupVersion>,
    preferred_version: GroupVersion,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupVersion {
    group_version: SmolStr,
}

impl Groups {
    /// The version of a group to use: the preferred one if it is `known`, else the first that is.
    pub(super) fn version(&self, name: &str, known: &[&str]) -> Result<SmolStr, String> {
        let group = self.groups.iter().find(|group| group.name == name);
        let group = group.ok_or_else(|| format!("no custom metrics API ({name}) registered"))?;
        let versions = std::iter::once(&group.preferred_version).chain(&group.versions);
        let usable =
            versions.map(|version| &version.group_version).find(|found| known.contains(&found.as_str()));
        let version = usable.and_then(|found| found.split_once('/')).map(|(_, version)| version.into());
        version.ok_or_else(|| "no known available metric versions found".to_owned())
    }
}
