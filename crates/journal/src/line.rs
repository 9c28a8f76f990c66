//! One decision as the journal has it. Secrets stay out: a decision names objects and says why; only what the API server answers to
//! a refused write may quote a value, so that is shortened before it, and left out for Secrets.

use std::collections::BTreeSet;

use flyball_api::time::{format_micros, parse_rfc3339};
use flyball_runtime::decisions::{Decision, Outcome, Subject};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Names of controllers and actions that are kept for ever; more than there are.
const NAMES: usize = 256;
/// After these words the API server quotes what it refuses.
const QUOTES: [&str; 4] = ["Invalid value", "Unsupported value", "Duplicate value", "Too long"];
/// No answer is kept at greater length.
const LONGEST: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When the process began that made it, in milliseconds since 1970.
    pub run: u64,
    /// Its number in that process.
    pub id: u64,
    pub time: String,
    pub controller: SmolStr,
    /// The key that was being reconciled.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub owner: SmolStr,
    pub action: SmolStr,
    pub kind: SmolStr,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    pub name: SmolStr,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub subresource: SmolStr,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub why: SmolStr,
    /// `done`, `refused`, `unknown` or `not-sent`.
    pub outcome: SmolStr,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How long the request took, in microseconds.
    pub took: u64,
}

impl Line {
    pub(crate) fn of(run: u64, decision: &Decision) -> Self {
        let (outcome, detail) = match &decision.outcome {
            Outcome::Done => ("done", ""),
            Outcome::Refused(detail) => ("refused", detail.as_str()),
            Outcome::Unknown(detail) => ("unknown", detail.as_str()),
            Outcome::NotSent(detail) => ("not-sent", detail.as_str()),
        };
        let Subject { kind, namespace, name } = &decision.target;
        Self {
            run,
            id: decision.id,
            time: format_micros(decision.time),
            controller: decision.controller.into(),
            owner: decision.owner.clone(),
            action: decision.action.into(),
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            subresource: decision.subresource.clone(),
            why: decision.why.clone(),
            outcome: outcome.into(),
            detail: redacted(kind, detail),
            took: u64::try_from(decision.took_ms.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// The decision again; `None` if its time cannot be read.
    pub(crate) fn decision(&self) -> Option<Decision> {
        let detail = self.detail.clone();
        let outcome = match self.outcome.as_str() {
            "refused" => Outcome::Refused(detail),
            "unknown" => Outcome::Unknown(detail),
            "not-sent" => Outcome::NotSent(detail),
            _ => Outcome::Done,
        };
        Some(Decision {
            id: self.id,
            time: parse_rfc3339(&self.time)?,
            controller: kept(&self.controller),
            owner: self.owner.clone(),
            action: kept(&self.action),
            target: Subject {
                kind: self.kind.clone(),
                namespace: self.namespace.clone(),
                name: self.name.clone(),
            },
            subresource: self.subresource.clone(),
            why: self.why.clone(),
            outcome,
            took_ms: std::time::Duration::from_micros(self.took),
        })
    }
}

/// An answer of the API server without the values that it quotes.
fn redacted(kind: &str, detail: &str) -> String {
    if kind.eq_ignore_ascii_case("secret") {
        return String::new();
    }
    let end = QUOTES.iter().filter_map(|words| Some(detail.find(words)? + words.len())).min();
    let kept: String = detail[..end.unwrap_or(detail.len())].chars().take(LONGEST).collect();
    if kept.len() < detail.len() { kept + "…" } else { kept }
}

/// The same text for ever: decisions name controllers by constants, and a journal may name those of another version.
fn kept(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock();
    if let Some(found) = known.get(text) {
        return found;
    }
    if known.len() >= NAMES {
        return "another";
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_without_the_values_that_they_quote() {
        #[rustfmt::skip]
        let table = [
            ("Pod",    "",                                                        ""),
            ("Pod",    "pods \"a\" already exists",                               "pods \"a\" already exists"),
            ("Pod",    "spec.env[0].value: Invalid value: \"hunter2\": too weak", "spec.env[0].value: Invalid value…"),
            ("Job",    "x: Duplicate value: \"hunter2\"",                         "x: Duplicate value…"),
            ("Secret", "data[password]: hunter2",                                 ""),
            ("secret", "hunter2",                                                 ""),
        ];
        for (kind, detail, want) in table {
            assert_eq!(redacted(kind, detail), want, "{kind}: {detail}");
        }
        let long = "ä".repeat(1000);
        assert_eq!(redacted("Pod", &long).chars().count(), LONGEST + 1);
    }
}
