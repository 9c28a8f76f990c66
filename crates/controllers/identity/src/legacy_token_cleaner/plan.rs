//! What becomes of an old token. Pure.

use std::time::Duration;

use flyball_api::time::SignedDuration;
use flyball_api::{Object, Secret, ServiceAccount, Timestamp};
use serde_json::{Value, json};

use crate::token_secret::{Claimed, is_listed, is_token};

/// The label by which the API server says when a token was last used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label by which a token is invalid, and since when.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// What to do with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Mark it as invalid from this day on.
    Invalidate(String),
    Delete,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Days {
    today: String,
    /// What was made at or after this moment is too young.
    made: Timestamp,
    /// What was used, or became invalid, on or after this day stays.
    used: String,
}

impl Days {
    /// The days by which tokens are judged; none while uses have not been tracked for long enough. `tracked_since`
    /// is a day, at some time of which tracking began.
    pub fn new(now: Timestamp, tracked_since: Timestamp, period: Duration) -> Option<Self> {
        let period = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
        let tracked = tracked_since.checked_add(DAY).ok()?;
        let long_enough = tracked.checked_add(period).is_ok_and(|then| now >= then);
        let made = now.checked_sub(period).ok()?;
        long_enough.then(|| Self { today: date(now), made, used: date(made) })
    }
}

/// What to do with a secret. `account` is the one that it names, `is_mounted` whether a pod draws on it.
pub fn plan(
    secret: &Secret,
    account: Option<&ServiceAccount>,
    is_mounted: impl FnOnce() -> bool,
    days: &Days,
) -> Option<Action> {
    let label = |key: &str| secret.metadata.labels.get(key);
    let is_old = secret.metadata.creation_timestamp.is_some_and(|made| made < days.made);
    if !is_token(secret) || !is_old || secret.is_deleting() {
        return None;
    }
    // A day that cannot be read says nothing, so that the token stays.
    if label(LAST_USED).is_some_and(|used| parse_date(used).is_none() || used >= days.used.as_str()) {
        return None;
    }
    // Only those that were made automatically are in their account's list.
    let account = account.filter(|account| Claimed::by(secret).is_some_and(|claimed| claimed.is(account)))?;
    if !is_listed(account, &secret.metadata.name) || is_mounted() {
        return None;
    }
    match label(INVALID_SINCE).filter(|day| parse_date(day).is_some()) {
        None => Some(Action::Invalidate(days.today.clone())),
        Some(day) => (day < days.used.as_str()).then_some(Action::Delete),
    }
}

/// The patch that marks a token as invalid. It carries the uid: another secret of that name is left alone.
pub fn invalidation(secret: &Secret, day: &str) -> Value {
    let meta = &secret.metadata;
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "labels": {INVALID_SINCE: day},
        },
    })
}

/// Midnight of a day written as `2026-01-31`.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    let is_shaped = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    format!("{text}T00:00:00Z").parse().ok().filter(|_| is_shaped)
}

fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}
