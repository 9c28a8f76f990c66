//! What is written for a token secret, and for the token secrets of a deleted account. Pure, except that signatures may
//! be random.

use std::sync::Arc;

use flyball_api::{Object, Secret, ServiceAccount};
use flyball_runtime::{Chain, Effect, ErrorKinds, Plan, Write};
use serde_json::Value;

use super::contents::{claims, filled, lacks};
use super::keys::{AccountKey, SecretKey};
use super::signer::Signer;
use crate::token_secret::AccountRef;

/// What the decision about a token secret depends on.
pub struct View<'a> {
    pub token: &'a SecretKey,
    /// The secret in the cache, if it has the uid of the key.
    pub cached: Option<Arc<Secret>>,
    /// The secret on the server, once it was read; `None` in it if there is none.
    pub live: Option<Option<Secret>>,
    /// The account that the secret names, if the cache has it.
    pub cached_account: Option<Arc<ServiceAccount>>,
    /// The account of that name on the server, once it was read; `None` in it if there is none.
    pub live_account: Option<Option<ServiceAccount>>,
    /// The CA in PEM form; may be empty.
    pub authority: &'a [u8],
    pub signer: &'a Signer,
}

/// What is still to be read from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Before a secret is deleted, its account must be known to be gone.
    Account,
    /// Before a secret is filled, it must be known whether the cache is current.
    Secret,
}

pub fn need(view: &View<'_>) -> Option<Need> {
    let cached = view.cached.as_deref()?;
    match view.account() {
        None => view.live_account.is_none().then_some(Need::Account),
        Some(_) => (view.live.is_none() && lacks(cached, view.authority).anything()).then_some(Need::Secret),
    }
}

impl View<'_> {
    /// The account that the secret names: from the cache, or else from the server.
    fn account(&self) -> Option<&ServiceAccount> {
        let named = self.token.account_ref();
        let live = self.live_account.as_ref().and_then(Option::as_ref);
        self.cached_account.as_deref().or(live.filter(|account| named.matches(account)))
    }
}

pub fn plan(view: &View<'_>) -> Plan {
    match (view.cached.as_deref(), view.account()) {
        (None, None) => Plan::default(),
        (None, Some(_)) => Plan::of([remove_reference(view.token)]),
        (Some(secret), None) => Plan::of([delete(secret)]),
        (Some(secret), Some(account)) => Plan::of(fill(view, secret, account)),
    }
}

/// Deletes the token secrets of an account that was deleted, unless the server still has the account. `current` is the
/// account of that name on the server. A secret without the uid of its account is deleted only if there is no such
/// account.
pub fn plan_deleted(deleted: &AccountKey, current: Option<&ServiceAccount>, tokens: &[Arc<Secret>]) -> Plan {
    if current.is_some_and(|account| account.metadata.uid == deleted.uid) {
        return Plan::default();
    }
    let belongs = |secret: &&Arc<Secret>| match AccountRef::of(secret) {
        Some(AccountRef { uid: Some(named), .. }) => named == deleted.uid,
        Some(AccountRef { uid: None, .. }) => current.is_none(),
        None => false,
    };
    Plan::of(tokens.iter().filter(belongs).map(|secret| delete(secret)))
}

fn delete(secret: &Secret) -> Write {
    // A conflict fails the sync: another secret has taken the name. By the retry, the cache will show it.
    Write::delete(secret).why("its service account does not exist").ignore_only(ErrorKinds::NOT_FOUND)
}

/// Adds what the secret lacks. Does nothing if the cache is stale: the watch event that updates it queues the secret
/// again.
fn fill(view: &View<'_>, cached: &Secret, account: &ServiceAccount) -> Option<Effect> {
    let live = view.live.as_ref()?.as_ref();
    let live = live.filter(|live| live.metadata.resource_version == cached.metadata.resource_version)?;
    let lacking = lacks(live, view.authority);
    if !lacking.anything() {
        return None;
    }
    let token = match lacking.token.then(|| view.signer.sign(&claims(live, account))).transpose() {
        Ok(token) => token,
        Err(error) => {
            return Some(Effect::Fail(format!("signing a token for {}: {}", live.key(), Chain(&error))));
        }
    };
    let filled = filled(live, account, lacking, view.authority, token.as_deref());
    let why = "it must hold a token, the namespace and the cluster's CA";
    Some(Write::replace(&filled).why(why).ignore(ErrorKinds::NOT_FOUND).into())
}

/// Removes the reference to a deleted secret from its account.
fn remove_reference(token: &SecretKey) -> Write {
    let (name, account) = (token.key.name.clone(), token.account_ref());
    let edit = move |live: &Value| {
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        let is_account = account.uid.as_ref().is_none_or(|wanted| wanted.with_str(|wanted| wanted == uid));
        without_reference(live, &name).filter(|_| is_account)
    };
    Write::get_then_update_retry_on_conflict::<ServiceAccount>(token.account.clone(), edit)
        .why("the token secret does not exist")
        .ignore(ErrorKinds::NOT_FOUND)
}

/// The account without its references to a secret; `None` if it has none. The account is the complete JSON from the
/// server, so that no field is lost.
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
