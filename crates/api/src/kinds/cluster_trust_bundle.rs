//! ClusterTrustBundles: the CA certificates of a signer.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{ObjectMeta, resource};

/// A certificates.k8s.io/v1beta1 ClusterTrustBundle. v1alpha1 is the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterTrustBundle {
    pub metadata: ObjectMeta,
    pub spec: ClusterTrustBundleSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterTrustBundleSpec {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub signer_name: SmolStr,
    pub trust_bundle: SmolStr,
}

resource!(
    ClusterTrustBundle,
    "certificates.k8s.io",
    "v1beta1",
    "clustertrustbundles",
    "ClusterTrustBundle",
    cluster
);
