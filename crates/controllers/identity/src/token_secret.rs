//! Secrets that hold the token of a service account: how they are told, and whose they are.

use flyball_api::secret::{SERVICE_ACCOUNT_TOKEN, Secret};
use flyball_api::{Key, ServiceAccount, Uid};
use flyball_cache::Index;

/// The annotation that names the account.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The annotation that says which incarnation of the account is meant. It may be missing.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Token secrets by the namespace and name of their account.
pub const BY_ACCOUNT: Index<Secret> = Index::new("account", |secret, emit| {
    if let Some(account) = Claimed::by(secret) {
        emit(&account.key.to_string());
    }
});

pub fn is_token(secret: &Secret) -> bool {
    secret.type_ == SERVICE_ACCOUNT_TOKEN
}

/// The account that a token secret says it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its name, in the secret's namespace.
    pub key: Key,
    /// Its identity, if the secret says so.
    pub uid: Option<Uid>,
}

impl Claimed {
    /// What a secret says; nothing if it is of another type or names no account.
    pub fn by(secret: &Secret) -> Option<Self> {
        let meta = &secret.metadata;
        let name = meta.annotations.get(ACCOUNT_NAME).filter(|name| is_token(secret) && !name.is_empty())?;
        let uid = meta.annotations.get(ACCOUNT_UID).filter(|uid| !uid.is_empty()).map(Uid::from);
        Some(Self { key: Key::new(meta.namespace.as_str(), name), uid })
    }

    /// Whether this is the account. A secret without an identity takes any of that name.
    pub fn is(&self, account: &ServiceAccount) -> bool {
        account.metadata.key() == self.key && self.uid.as_ref().is_none_or(|uid| *uid == account.metadata.uid)
    }
}

/// Whether an account lists a secret among its own.
pub fn is_listed(account: &ServiceAccount, secret: &str) -> bool {
    account.secrets.iter().any(|reference| reference.name == secret)
}
