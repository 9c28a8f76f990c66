//! ResourcePoolStatusRequests: requests for the number of free devices of a driver.

use serde::Deserialize;
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::null_default;
use crate::{ObjectMeta, resource};

/// A resource.k8s.io/v1alpha3 ResourcePoolStatusRequest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourcePoolStatusRequest {
    pub metadata: ObjectMeta,
    pub spec: ResourcePoolStatusRequestSpec,
    pub status: Option<ResourcePoolStatusRequestStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourcePoolStatusRequestSpec {
    pub driver: SmolStr,
    pub pool_name: Option<SmolStr>,
    /// Of how many pools at most.
    pub limit: Option<i32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourcePoolStatusRequestStatus {
    #[serde(deserialize_with = "null_default")]
    pub conditions: Vec<Condition>,
}

resource!(
    ResourcePoolStatusRequest,
    "resource.k8s.io",
    "v1alpha3",
    "resourcepoolstatusrequests",
    "ResourcePoolStatusRequest",
    cluster
);
