//! ServiceAccounts.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{ObjectMeta, RawJson, resource};

/// A v1 ServiceAccount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceAccount {
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub secrets: Box<[SecretReference]>,
    /// Kept for writing back; no controller reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<RawJson>,
    /// Kept for writing back; no controller reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
}

/// A reference from a [`ServiceAccount`] to a secret. Only the name is ever used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretReference {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
}

resource!(ServiceAccount, "", "v1", "serviceaccounts", "ServiceAccount", namespaced);
