//! What a token secret holds: the token, the namespace and the CA. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::{Secret, ServiceAccount};
use serde_json::{Value, json};

use crate::token_secret::{ACCOUNT_NAME, ACCOUNT_UID};

const AUTHORITY: &str = "ca.crt";
const NAMESPACE: &str = "namespace";
const TOKEN: &str = "token";
/// The issuer of legacy tokens.
const ISSUER: &str = "kubernetes/serviceaccount";

/// The entries that are missing or wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacks {
    pub authority: bool,
    pub namespace: bool,
    pub token: bool,
}

impl Lacks {
    pub fn anything(self) -> bool {
        self.authority || self.namespace || self.token
    }
}

/// What a secret lacks. An empty `authority` leaves the CA as it is.
pub fn lacks(secret: &Secret, authority: &[u8]) -> Lacks {
    let held = |entry: &str| secret.data.get(entry).unwrap_or_default();
    Lacks {
        authority: !authority.is_empty() && BASE64.decode(held(AUTHORITY)).ok().as_deref() != Some(authority),
        namespace: held(NAMESPACE).is_empty(),
        token: held(TOKEN).is_empty(),
    }
}

/// The secret with everything that it lacks.
pub fn filled(
    secret: &Secret,
    account: &ServiceAccount,
    lacks: Lacks,
    authority: &[u8],
    token: Option<&str>,
) -> Secret {
    let mut filled = secret.clone();
    let mut set = |entry: &str, bytes: &[u8]| filled.data = filled.data.with(entry, &BASE64.encode(bytes));
    if lacks.authority {
        set(AUTHORITY, authority);
    }
    if lacks.namespace {
        set(NAMESPACE, secret.metadata.namespace.as_bytes());
    }
    if let Some(token) = token {
        set(TOKEN, token.as_bytes());
    }
    let annotations = secret.metadata.annotations.with(ACCOUNT_NAME, &account.metadata.name);
    filled.metadata.annotations = annotations.with(ACCOUNT_UID, &account.metadata.uid.to_smol_str());
    filled
}

/// The claims of the token: the account, and the secret, which must exist for the token to be valid.
pub fn claims(secret: &Secret, account: &ServiceAccount) -> Value {
    let account = &account.metadata;
    json!({
        "iss": ISSUER,
        "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        "kubernetes.io/serviceaccount/namespace": account.namespace,
        "kubernetes.io/serviceaccount/secret.name": secret.metadata.name,
        "kubernetes.io/serviceaccount/service-account.name": account.name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid,
    })
}
