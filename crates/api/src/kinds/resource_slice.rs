//! ResourceSlices and DeviceTaintRules.

use serde::Deserialize;
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::null_default;
use crate::taint::Taint;
use crate::{ObjectMeta, intern, resource};

/// A resource.k8s.io/v1 ResourceSlice with the fields that controllers read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    pub metadata: ObjectMeta,
    pub spec: ResourceSliceSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceSliceSpec {
    #[serde(deserialize_with = "intern::text")]
    pub driver: SmolStr,
    pub pool: ResourcePool,
    /// The node that they are on; empty if it is not one.
    #[serde(deserialize_with = "intern::text")]
    pub node_name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub devices: Vec<Device>,
}

/// A pool of devices. Slices of an older generation no longer count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourcePool {
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    pub generation: i64,
    pub resource_slice_count: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Device {
    pub name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub taints: Vec<Taint>,
}

/// A resource.k8s.io/v1beta2 DeviceTaintRule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceTaintRule {
    pub metadata: ObjectMeta,
    pub spec: DeviceTaintRuleSpec,
    pub status: DeviceTaintRuleStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceTaintRuleSpec {
    /// Absent: no devices.
    pub device_selector: Option<DeviceSelector>,
    pub taint: Taint,
}

/// Selects devices by all fields that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    pub driver: Option<SmolStr>,
    pub pool: Option<SmolStr>,
    pub device: Option<SmolStr>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceTaintRuleStatus {
    #[serde(deserialize_with = "null_default")]
    pub conditions: Vec<Condition>,
}

resource!(ResourceSlice, "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", cluster);
resource!(DeviceTaintRule, "resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", cluster);
