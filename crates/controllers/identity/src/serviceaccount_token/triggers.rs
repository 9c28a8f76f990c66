//! Which accounts and secrets to look at after a change.

use flyball_api::{Secret, ServiceAccount};
use flyball_cache::{Change, Origin};

use super::keys::{AccountKey, SecretKey};

/// An account that is gone leaves tokens behind. Nothing else about accounts concerns us.
pub fn account_changed(change: &Change<'_, ServiceAccount>) -> Option<AccountKey> {
    change.old.filter(|_| change.new.is_none()).map(|account| AccountKey::of(account))
}

/// Any change of a token secret: it may lack something, or have left a reference behind.
pub fn secret_changed(change: &Change<'_, Secret>) -> Option<SecretKey> {
    SecretKey::of(change.object()).filter(|_| change.origin != Origin::Resync)
}
