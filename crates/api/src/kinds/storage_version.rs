//! StorageVersions: in which version each API server stores a resource.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{ObjectMeta, resource};

/// An internal.apiserver.k8s.io/v1alpha1 StorageVersion. Only the ids of the API servers are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageVersion {
    pub metadata: ObjectMeta,
    pub status: StorageVersionStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageVersionStatus {
    #[serde(deserialize_with = "null_default")]
    pub storage_versions: Vec<ServerStorageVersion>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerStorageVersion {
    #[serde(rename = "apiServerID")]
    pub api_server_id: SmolStr,
}

resource!(
    StorageVersion,
    "internal.apiserver.k8s.io",
    "v1alpha1",
    "storageversions",
    "StorageVersion",
    cluster
);
