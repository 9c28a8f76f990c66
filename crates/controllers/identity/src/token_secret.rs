//! Secrets that hold the token of a service account, and the account that they name.

use flyball_api::secret::{SERVICE_ACCOUNT_TOKEN, Secret};
use flyball_api::{Key, ServiceAccount, Uid};
use flyball_cache::Index;

/// The annotation with the name of the account.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The annotation with the uid of the account. It may be missing.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Token secrets by the namespace and name of their account.
pub const BY_ACCOUNT: Index<Secret> = Index::new("account", |secret, emit| {
    if let Some(account) = AccountRef::of(secret) {
        emit(&account.key.to_string());
    }
});

pub fn is_token(secret: &Secret) -> bool {
    secret.type_ == SERVICE_ACCOUNT_TOKEN
}

/// The account that a token secret names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRef {
    /// Its name, in the secret's namespace.
    pub key: Key,
    /// Its uid, if the secret has one.
    pub uid: Option<Uid>,
}

impl AccountRef {
    /// The account that a secret names; `None` for secrets of other types and without the annotation.
    pub fn of(secret: &Secret) -> Option<Self> {
        let meta = &secret.metadata;
        let name = meta.annotations.get(ACCOUNT_NAME).filter(|name| is_token(secret) && !name.is_empty())?;
        let uid = meta.annotations.get(ACCOUNT_UID).filter(|uid| !uid.is_empty()).map(Uid::from);
        Some(Self { key: Key::new(meta.namespace.as_str(), name), uid })
    }

    /// Whether this is the account. Without a uid any account of the name matches.
    pub fn matches(&self, account: &ServiceAccount) -> bool {
        account.metadata.key() == self.key && self.uid.as_ref().is_none_or(|uid| *uid == account.metadata.uid)
    }
}

/// Whether an account lists a secret in `secrets`.
pub fn is_listed(account: &ServiceAccount, secret: &str) -> bool {
    account.secrets.iter().any(|reference| reference.name == secret)
}
