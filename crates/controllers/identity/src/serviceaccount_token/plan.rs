//! What a token secret lacks, and which of an account's secrets go with it. Pure.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::{Secret, ServiceAccount, Uid};
use serde_json::{Value, json};

use crate::token_secret::{ACCOUNT_NAME, ACCOUNT_UID, Claimed};

const AUTHORITY: &str = "ca.crt";
const NAMESPACE: &str = "namespace";
const TOKEN: &str = "token";
/// Who issues tokens of this kind.
const ISSUER: &str = "kubernetes/serviceaccount";

/// What a secret lacks or has wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacks {
    /// The CA, or it has another one.
    pub authority: bool,
    pub namespace: bool,
    pub token: bool,
}

impl Lacks {
    /// Whether there is something to repair.
    pub fn anything(self) -> bool {
        self.authority || self.namespace || self.token
    }
}

/// What a secret lacks. Without a CA of our own we leave what it has.
pub fn lacks(secret: &Secret, authority: &[u8]) -> Lacks {
    let held = |entry: &str| secret.data.get(entry).unwrap_or_default();
    Lacks {
        authority: !authority.is_empty() && BASE64.decode(held(AUTHORITY)).ok().as_deref() != Some(authority),
        namespace: held(NAMESPACE).is_empty(),
        token: held(TOKEN).is_empty(),
    }
}

/// The secret with all that it lacks.
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

/// What the token in a secret says: who the bearer is, and that the secret must still be there.
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

/// Of the secrets that name an account, those that go with its incarnation `uid`, which is gone. One that does not
/// say which incarnation it is for goes only if no other of that name lives.
pub fn left_behind<'a>(secrets: &'a [Arc<Secret>], uid: &Uid, another_lives: bool) -> Vec<&'a Arc<Secret>> {
    let is_of_it = |secret: &&Arc<Secret>| match Claimed::by(secret) {
        Some(Claimed { uid: Some(named), .. }) => named == *uid,
        Some(Claimed { uid: None, .. }) => !another_lives,
        None => false,
    };
    secrets.iter().filter(is_of_it).collect()
}

/// An account as served, without its references to a secret; `None` if it has none.
pub fn without_reference(account: &Value, secret: &str) -> Option<Value> {
    let references = account.get("secrets")?.as_array()?;
    let kept: Vec<Value> =
        references.iter().filter(|reference| reference["name"] != secret).cloned().collect();
    if kept.len() == references.len() {
        return None;
    }
    let mut account = account.clone();
    account["secrets"] = Value::Array(kept);
    if let Some(metadata) = account.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Some(account)
}
