//! CertificateSigningRequests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::null_default;
use crate::{ObjectMeta, WithRaw, resource};

/// A certificates.k8s.io/v1 CertificateSigningRequest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CertificateSigningRequest {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<CertificateSigningRequestSpec>,
    pub status: CertificateSigningRequestStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CertificateSigningRequestSpec {
    /// The PKCS #10 request in PEM, in base64.
    pub request: SmolStr,
    pub signer_name: SmolStr,
    pub expiration_seconds: Option<i32>,
    #[serde(deserialize_with = "null_default")]
    pub usages: Vec<SmolStr>,
    pub username: SmolStr,
    pub uid: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub groups: Vec<SmolStr>,
    #[serde(deserialize_with = "null_default")]
    pub extra: BTreeMap<SmolStr, Vec<SmolStr>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CertificateSigningRequestStatus {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The certificate in PEM, in base64.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub certificate: SmolStr,
}

resource!(
    CertificateSigningRequest,
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    cluster
);
