//! ConfigMaps, with their text data: the root-CA publisher compares it.

use serde::{Deserialize, Serialize};

use crate::{Labels, ObjectMeta, resource};

/// A v1 ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMap {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// The text entries. Binary ones are not kept.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub data: Labels,
}

resource!(ConfigMap, "", "v1", "configmaps", "ConfigMap", namespaced);
