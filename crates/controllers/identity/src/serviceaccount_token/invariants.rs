//! What must hold for every plan; for tables, properties and the simulator.

use std::sync::Arc;

use flyball_api::{Secret, ServiceAccount, Uid};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Plan, all_hold};
use serde_json::Value;

use super::keys::AccountKey;
use super::plan::View;
use crate::token_secret::AccountRef;

/// The CA, the only entry of a token secret that is replaced.
const AUTHORITY: &str = "ca.crt";

/// Checks the plan for a token secret against its view.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let named = view.token.account_ref();
    let is_read_and_gone =
        |read: &Option<ServiceAccount>| !read.as_ref().is_some_and(|found| named.matches(found));
    let is_account_gone =
        view.cached_account.is_none() && view.live_account.as_ref().is_some_and(is_read_and_gone);
    let mut broken = vec![];
    for write in plan.writes() {
        let rules = match &write.operation {
            Operation::Delete(options) => vec![
                ("a token is deleted only if the server has no account for it", is_account_gone),
                ("a token is deleted by its uid", options.uid.as_ref() == Some(&view.token.uid)),
            ],
            Operation::Update(body) => vec![
                ("a token is filled only for an account that exists", !is_account_gone),
                ("only a secret that the cache shows as it is gets filled", is_current(view)),
                ("entries of a secret are kept", keeps_entries(view, &body.value())),
            ],
            _ => vec![("a reference is removed only if the secret is gone", view.cached.is_none())],
        };
        broken
            .extend(rules.into_iter().filter(|(_, holds)| !holds).map(|(rule, _)| format!("{rule}: {plan}")));
    }
    all_hold(broken)
}

fn is_current(view: &View<'_>) -> bool {
    let live = view.live.as_ref().and_then(Option::as_ref);
    let versions = live.zip(view.cached.as_deref());
    versions.is_some_and(|(live, cached)| live.metadata.resource_version == cached.metadata.resource_version)
}

/// Whether a new secret has all entries of the live one: only the CA may be replaced, and what is empty.
fn keeps_entries(view: &View<'_>, new: &Value) -> bool {
    let live = view.live.as_ref().and_then(Option::as_ref);
    let before = live.and_then(|live| serde_json::to_value(live).ok()).unwrap_or_default();
    let entries = before["data"].as_object().into_iter().flatten();
    let mut kept = entries.filter(|(name, value)| *name != AUTHORITY && *value != "");
    kept.all(|(name, value)| new["data"][name] == *value)
}

/// Checks which tokens of a deleted account are deleted. `current` is the account of that name on the server.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check_deleted(
    deleted: &AccountKey,
    current: Option<&ServiceAccount>,
    tokens: &[Arc<Secret>],
    plan: &Plan,
) -> Result<(), String> {
    let may_be_of = |uid: &Uid, token: &Secret| {
        AccountRef::of(token).is_some_and(|named| named.uid.is_none_or(|named| named == *uid))
    };
    let mut broken = vec![];
    for write in plan.writes() {
        let token = tokens.iter().find(|token| token.metadata.key() == write.key);
        let is_of_deleted = token.is_some_and(|token| may_be_of(&deleted.uid, token));
        let current = current.map(|account| &account.metadata.uid);
        let is_of_current = token.zip(current).is_some_and(|(token, uid)| may_be_of(uid, token));
        if !is_of_deleted || is_of_current {
            broken.push(format!("{} is deleted, which may be of another account", write.key));
        }
    }
    all_hold(broken)
}
