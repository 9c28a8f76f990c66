//! Which legacy tokens are invalidated and which are deleted. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::time::SignedDuration;
use flyball_api::{ConfigMap, Key, Object, Secret, ServiceAccount, Timestamp};
use flyball_client::{DeleteOptions, Patch};
use flyball_runtime::{Effect, ErrorKinds, Outcome, Plan, Write};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::token_secret::{AccountRef, is_listed, is_token};

/// The label with the day on which a token was last used; the API server sets it.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label of an invalid token, with the day since when it is.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The entry of the ConfigMap with the day on which the API server began to track the use of tokens.
const SINCE: &str = "since";
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// The pause after a round that failed.
pub const AFTER_FAILURE: Duration = Duration::from_secs(5 * 60);
/// The pause after a round in which a token changed between its read and its write.
const AFTER_CONFLICT: Duration = Duration::from_secs(5);

/// What a round decides on.
#[derive(Debug, Default)]
pub struct View {
    /// All token secrets, by key.
    pub tokens: Vec<Token>,
    /// `None` while use has not been tracked for long enough.
    pub days: Option<Days>,
}

#[derive(Debug, Clone)]
pub struct Token {
    pub secret: Arc<Secret>,
    /// The account that the secret names.
    pub account: Option<Arc<ServiceAccount>>,
    /// Whether a pod mounts the secret. Only looked up for tokens that are [unused](is_unused).
    pub is_mounted: bool,
}

/// The days that tokens are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Days {
    today: String,
    /// Tokens that were created at this time or later are too young.
    created: Timestamp,
    /// Tokens that were used or invalidated on this day or later stay as they are.
    used: String,
}

impl Days {
    /// `None` while use has not been tracked for long enough. Tracking began at some time of the day `tracked_since`.
    pub fn new(now: Timestamp, tracked_since: Timestamp, period: Duration) -> Option<Self> {
        let period = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
        let tracked = tracked_since.checked_add(DAY).ok()?;
        let is_long_enough = tracked.checked_add(period).is_ok_and(|time| now >= time);
        let created = now.checked_sub(period).ok()?;
        is_long_enough.then(|| Self { today: date(now), created, used: date(created) })
    }
}

/// Since when the API server has tracked the use of tokens.
///
/// # Errors
/// What is wrong with the ConfigMap, for people.
pub fn tracked_since(map: &ConfigMap) -> Result<Timestamp, String> {
    let since = map.data.get(SINCE);
    since.and_then(parse_date).ok_or_else(|| {
        let found = since.map_or("it is missing".to_owned(), |since| format!("not {since:?}"));
        format!("its entry {SINCE:?} must be a day like 2026-01-31; {found}")
    })
}

/// The token secrets among `secrets`, by key. What pods mount is asked once for each namespace, and only for tokens to which it matters.
pub fn tokens(
    mut secrets: Vec<Arc<Secret>>,
    days: &Days,
    account: impl Fn(&Key) -> Option<Arc<ServiceAccount>>,
    mounted: impl Fn(&str) -> BTreeSet<SmolStr>,
) -> Vec<Token> {
    secrets.retain(|secret| is_token(secret));
    secrets.sort_unstable_by_key(|secret| secret.key());
    let mut known: BTreeMap<SmolStr, BTreeSet<SmolStr>> = BTreeMap::new();
    let token = |secret: Arc<Secret>| {
        let account = AccountRef::of(&secret).and_then(|named| account(&named.key));
        let Key { namespace, name } = secret.key();
        let mut is_mounted =
            || known.entry(namespace.clone()).or_insert_with(|| mounted(&namespace)).contains(&name);
        let is_mounted = is_unused(&secret, account.as_deref(), days) && is_mounted();
        Token { secret, account, is_mounted }
    };
    secrets.into_iter().map(token).collect()
}

pub fn plan(view: &View) -> Plan {
    let Some(days) = &view.days else { return Plan::default() };
    Plan::of([Effect::each(view.tokens.iter().filter_map(|token| clean_up(token, days)))])
}

/// A shorter pause before the next round, if the outcome requires one.
pub fn earlier_round(outcome: &Outcome) -> Option<Duration> {
    if outcome.ignored().any(|(_, error)| error.is_conflict()) {
        return Some(AFTER_CONFLICT);
    }
    (!outcome.is_ok()).then_some(AFTER_FAILURE)
}

fn clean_up(token: &Token, days: &Days) -> Option<Write> {
    let Token { secret, account, is_mounted } = token;
    if *is_mounted || !is_unused(secret, account.as_deref(), days) {
        return None;
    }
    let invalid_since = secret.metadata.labels.get(INVALID_SINCE).filter(|day| parse_date(day).is_some());
    let write = match invalid_since {
        None => Write::patch::<Secret>(secret.key(), Patch::Merge(invalidation(secret, &days.today)))
            .why("it is a legacy token that has not been used for the clean-up period"),
        Some(day) if day >= days.used.as_str() => return None,
        Some(_) => {
            // Only in the version that was read: a use in between changes it.
            let version = Some(secret.metadata.resource_version);
            let options = DeleteOptions { resource_version: version, ..DeleteOptions::default() };
            Write::delete_with::<Secret>(secret.key(), options)
                .why("it is a legacy token that has been invalid and unused for the clean-up period")
        }
    };
    Some(write.ignore(ErrorKinds::NOT_FOUND | ErrorKinds::CONFLICT))
}

/// Whether a secret is an automatically created token that was not used for the period.
pub fn is_unused(secret: &Secret, account: Option<&ServiceAccount>, days: &Days) -> bool {
    let is_old = secret.metadata.creation_timestamp.is_some_and(|created| created < days.created);
    if !is_token(secret) || !is_old || secret.is_deleting() {
        return false;
    }
    // A token with a day that cannot be parsed stays.
    let last_used = secret.metadata.labels.get(LAST_USED);
    if last_used.is_some_and(|day| parse_date(day).is_none() || day >= days.used.as_str()) {
        return false;
    }
    // Only tokens that were created automatically are in the list of their account.
    account.is_some_and(|account| {
        AccountRef::of(secret).is_some_and(|named| named.matches(account))
            && is_listed(account, &secret.metadata.name)
    })
}

/// It carries the uid: another secret of that name is left alone.
fn invalidation(secret: &Secret, day: &str) -> Value {
    let meta = &secret.metadata;
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "labels": {INVALID_SINCE: day},
        },
    })
}

/// Midnight of a day in the form `2026-01-31`.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    let has_form = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    format!("{text}T00:00:00Z").parse().ok().filter(|_| has_form)
}

fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}
