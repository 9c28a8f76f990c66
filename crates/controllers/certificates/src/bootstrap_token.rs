//! Bootstrap tokens: secrets by which a new node and the cluster authenticate each other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::secret::{BOOTSTRAP_TOKEN, Secret};
use flyball_api::{Timestamp, time};
use flyball_cache::Filter;

pub const NAMESPACE: &str = "kube-system";

const NAME_PREFIX: &str = "bootstrap-token-";
const ID: &str = "token-id";
const SECRET: &str = "token-secret";
const EXPIRATION: &str = "expiration";
const SIGNS: &str = "usage-bootstrap-signing";

/// Restricts an informer of secrets to bootstrap tokens.
pub fn filter() -> Filter {
    let fields = Some(format!("type={BOOTSTRAP_TOKEN}"));
    Filter { namespace: Some(NAMESPACE.into()), fields, ..Filter::default() }
}

/// Whether a secret is a bootstrap token; does not rely on the filter of the informer.
pub fn is_token(secret: &Secret) -> bool {
    secret.type_ == BOOTSTRAP_TOKEN && secret.metadata.namespace == NAMESPACE
}

/// The parts of a token that are needed to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningToken {
    pub id: String,
    pub secret: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    Never,
    At(Timestamp),
    /// It cannot be parsed, and counts as expired.
    Unreadable,
}

impl Expiry {
    pub fn of(secret: &Secret) -> Self {
        let text = entry(secret, EXPIRATION);
        match time::parse_rfc3339(&text) {
            _ if text.is_empty() => Self::Never,
            Some(time) => Self::At(time),
            None => Self::Unreadable,
        }
    }

    pub fn is_past(self, now: Timestamp) -> bool {
        match self {
            Self::Never => false,
            Self::At(time) => time <= now,
            Self::Unreadable => true,
        }
    }
}

/// The token in a secret, if it is complete, has not expired and has the usage for signing.
pub fn signing_token(secret: &Secret, now: Timestamp) -> Option<SigningToken> {
    let named = secret.metadata.name.strip_prefix(NAME_PREFIX).filter(|id| is_id(id))?;
    let (id, token_secret) = (entry(secret, ID), entry(secret, SECRET));
    let has_usage = is_token(secret) && entry(secret, SIGNS) == "true";
    let is_valid = id == named && !token_secret.is_empty() && !Expiry::of(secret).is_past(now);
    (has_usage && is_valid).then_some(SigningToken { id, secret: token_secret })
}

fn is_id(text: &str) -> bool {
    text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// An entry as text; empty if it is missing.
fn entry(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.get(key).and_then(|encoded| BASE64.decode(encoded).ok());
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A token secret with these entries: `key=value`, separated by blanks.
    fn secret(name: &str, entries: &str) -> Secret {
        let data: serde_json::Map<_, _> = entries
            .split(' ')
            .filter_map(|entry| entry.split_once('='))
            .map(|(key, value)| (key.to_owned(), json!(BASE64.encode(value))))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": NAMESPACE}, "type": BOOTSTRAP_TOKEN, "data": data,
        }))
        .unwrap()
    }

    #[test]
    fn a_token_signs_if_it_is_complete_and_has_the_usage() {
        #[rustfmt::skip]
        let table = [
            // case                        name                      entries                                                                                 signs
            ("complete",                   "bootstrap-token-abc012", "token-id=abc012 token-secret=s usage-bootstrap-signing=true",                              true),
            ("not expired",                "bootstrap-token-abc012", "token-id=abc012 token-secret=s usage-bootstrap-signing=true expiration=2030-01-01T00:00:00Z", true),
            ("expired",                    "bootstrap-token-abc012", "token-id=abc012 token-secret=s usage-bootstrap-signing=true expiration=2020-01-01T00:00:00Z", false),
            ("not a time",                 "bootstrap-token-abc012", "token-id=abc012 token-secret=s usage-bootstrap-signing=true expiration=tomorrow",          false),
            ("for authentication only",    "bootstrap-token-abc012", "token-id=abc012 token-secret=s usage-bootstrap-authentication=true",                       false),
            ("another value of the usage", "bootstrap-token-abc012", "token-id=abc012 token-secret=s usage-bootstrap-signing=yes",                               false),
            ("no id",                      "bootstrap-token-abc012", "token-secret=s usage-bootstrap-signing=true",                                              false),
            ("no secret",                  "bootstrap-token-abc012", "token-id=abc012 usage-bootstrap-signing=true",                                             false),
            ("another id than its name's", "bootstrap-token-abc012", "token-id=abc013 token-secret=s usage-bootstrap-signing=true",                              false),
            ("not named like one",         "token-abc012",           "token-id=abc012 token-secret=s usage-bootstrap-signing=true",                              false),
            ("an id too long",             "bootstrap-token-abc0123","token-id=abc0123 token-secret=s usage-bootstrap-signing=true",                             false),
        ];
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        for (case, name, entries, want) in table {
            assert_eq!(signing_token(&secret(name, entries), now).is_some(), want, "{case}");
        }
    }

    #[test]
    fn an_expiration_that_cannot_be_parsed_has_passed() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        #[rustfmt::skip]
        let table = [
            ("",                          false),
            ("2026-01-01T00:00:01Z",      false),
            ("2026-01-01T00:00:00Z",      true),
            ("2026-01-01T00:00:00.5Z",    false),
            ("2026-01-01T01:00:01+01:00", false),
            ("2026-01-01T00:59:59+01:00", true),
            ("2030-01-01",                true),
            ("2030-01-01 00:00:00Z",      true),
            ("2030-01-01T00:00:00",       true),
            ("2030-02-30T00:00:00Z",      true),
            ("never",                     true),
        ];
        for (text, want) in table {
            let secret =
                secret("bootstrap-token-abc012", &format!("expiration={text}").replace(' ', "\u{a0}"));
            assert_eq!(Expiry::of(&secret).is_past(now), want, "{text:?}");
        }
    }
}
