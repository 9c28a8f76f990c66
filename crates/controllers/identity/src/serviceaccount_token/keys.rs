//! What is put into the queues: enough to act even when the object is gone.

use std::fmt;

use flyball_api::{Key, Secret, ServiceAccount, Uid};
use flyball_runtime::WorkKey;

use crate::token_secret::Claimed;

/// One incarnation of an account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountKey {
    pub key: Key,
    pub uid: Uid,
}

impl AccountKey {
    /// The key of an account.
    pub fn of(account: &ServiceAccount) -> Self {
        Self { key: account.metadata.key(), uid: account.metadata.uid.clone() }
    }
}

/// One incarnation of a token secret, and the account that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretKey {
    pub key: Key,
    pub uid: Uid,
    pub account: Key,
    /// Which incarnation of the account, if the secret says so.
    pub account_uid: Option<Uid>,
}

impl SecretKey {
    /// The key of a token secret; `None` for any other, and for one that names no account.
    pub fn of(secret: &Secret) -> Option<Self> {
        let Claimed { key, uid } = Claimed::by(secret)?;
        let meta = &secret.metadata;
        Some(Self { key: meta.key(), uid: meta.uid.clone(), account: key, account_uid: uid })
    }

    /// The account that is meant.
    pub fn claimed(&self) -> Claimed {
        Claimed { key: self.account.clone(), uid: self.account_uid.clone() }
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
