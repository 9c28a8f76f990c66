//! The keys of the queues. They hold enough to act on deleted objects.

use std::fmt;

use flyball_api::{Key, Secret, ServiceAccount, Uid};
use flyball_runtime::WorkKey;

use crate::token_secret::AccountRef;

/// An account by name and uid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountKey {
    pub key: Key,
    pub uid: Uid,
}

impl AccountKey {
    pub fn of(account: &ServiceAccount) -> Self {
        Self { key: account.metadata.key(), uid: account.metadata.uid.clone() }
    }
}

/// A token secret by name and uid, and the account that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretKey {
    pub key: Key,
    pub uid: Uid,
    pub account: Key,
    /// The uid of the account, if the secret has it.
    pub account_uid: Option<Uid>,
}

impl SecretKey {
    /// `None` for secrets of other types, and for those that name no account.
    pub fn of(secret: &Secret) -> Option<Self> {
        let AccountRef { key, uid } = AccountRef::of(secret)?;
        let meta = &secret.metadata;
        Some(Self { key: meta.key(), uid: meta.uid.clone(), account: key, account_uid: uid })
    }

    pub fn account_ref(&self) -> AccountRef {
        AccountRef { key: self.account.clone(), uid: self.account_uid.clone() }
    }
}

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "account {}", self.key)
    }
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {}", self.key)
    }
}

impl WorkKey for AccountKey {
    fn object(&self) -> &Key {
        &self.key
    }
}

impl WorkKey for SecretKey {
    fn object(&self) -> &Key {
        &self.key
    }
}
