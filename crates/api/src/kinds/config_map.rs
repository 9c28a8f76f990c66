//! ConfigMaps, with all fields, since controllers replace whole ones. There is no cache of all of them: informers filter by name.

use serde::{Deserialize, Serialize};

use crate::{Labels, ObjectMeta, resource};

/// A v1 ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMap {
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub data: Labels,
    /// The binary entries, in base64.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub binary_data: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
}

resource!(ConfigMap, "", "v1", "configmaps", "ConfigMap", namespaced);
