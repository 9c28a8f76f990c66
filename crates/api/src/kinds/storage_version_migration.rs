//! StorageVersionMigrations: requests to rewrite every object of a resource in the current storage version.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::null_default;
use crate::{ObjectMeta, WithRaw, resource};

/// A storagemigration.k8s.io/v1beta1 StorageVersionMigration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageVersionMigration {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<StorageVersionMigrationSpec>,
    pub status: StorageVersionMigrationStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StorageVersionMigrationSpec {
    pub resource: GroupResource,
}

/// A resource of any version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupResource {
    pub group: SmolStr,
    pub resource: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageVersionMigrationStatus {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub resource_version: SmolStr,
}

resource!(
    StorageVersionMigration,
    "storagemigration.k8s.io",
    "v1beta1",
    "storageversionmigrations",
    "StorageVersionMigration",
    cluster
);
