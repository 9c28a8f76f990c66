//! Which accounts and secrets are synced after a change.

use flyball_api::{Secret, ServiceAccount};
use flyball_cache::{Change, Origin};

use super::keys::{AccountKey, SecretKey};

/// A deleted account, whose tokens have to be deleted.
pub fn account_changed(change: &Change<'_, ServiceAccount>) -> Option<AccountKey> {
    change.old.filter(|_| change.new.is_none()).map(|account| AccountKey::of(account))
}

/// Any change of a token secret: it may lack something, or its account may still refer to it.
pub fn secret_changed(change: &Change<'_, Secret>) -> Option<SecretKey> {
    SecretKey::of(change.object()).filter(|_| change.origin != Origin::Resync)
}
