//! DeviceClasses: classes of devices for ResourceClaims.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{ObjectMeta, resource};

/// A resource.k8s.io/v1 DeviceClass. What selects and configures its devices is not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClass {
    pub metadata: ObjectMeta,
    pub spec: DeviceClassSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClassSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resource_name: Option<SmolStr>,
}

resource!(DeviceClass, "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", cluster);
