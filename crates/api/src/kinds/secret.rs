//! Secrets. Their data is kept only for the two types that controllers handle: tokens of service accounts and bootstrap
//! tokens. The data of all others is not kept in memory.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{Labels, ObjectMeta, resource};

/// The type of secrets that hold the token of a service account.
pub const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
/// The type of secrets that hold a bootstrap token.
pub const BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";

/// A v1 Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, from = "Wire", rename_all = "camelCase")]
pub struct Secret {
    pub metadata: ObjectMeta,
    /// The type, such as [`SERVICE_ACCOUNT_TOKEN`].
    #[serde(rename = "type")]
    pub type_: SmolStr,
    /// Base64 text by key; empty unless the type is one that controllers work on.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub data: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: ObjectMeta,
    r#type: SmolStr,
    data: Labels,
    immutable: Option<bool>,
}

impl From<Wire> for Secret {
    fn from(wire: Wire) -> Self {
        let is_token = wire.r#type == SERVICE_ACCOUNT_TOKEN || wire.r#type == BOOTSTRAP_TOKEN;
        let data = if is_token { wire.data } else { Labels::EMPTY };
        Self { metadata: wire.metadata, type_: wire.r#type, data, immutable: wire.immutable }
    }
}

resource!(Secret, "", "v1", "secrets", "Secret", namespaced);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bytes_are_kept_only_for_token_types() {
        for (type_, kept) in [("Opaque", 0), (SERVICE_ACCOUNT_TOKEN, 1), (BOOTSTRAP_TOKEN, 1)] {
            let secret: Secret =
                serde_json::from_value(json!({"type": type_, "data": {"token": "eA=="}})).unwrap();
            assert_eq!(secret.data.len(), kept, "{type_}");
        }
    }
}
