//! Decisions as lines: text, coloured on a terminal, or JSON.

use std::io::Write as _;

use flyball_runtime::decisions::{Decision, Outcome};
use serde::Deserialize;

use crate::args::LogFormat;

/// Prints text. A closed stdout (`| head -1`) is ignored: a cluster continues, and other commands end soon.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a line with [`print()`].
macro_rules! say {
    ($($text:tt)*) => { $crate::lines::print(&format!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) format: LogFormat,
    pub(crate) colour: bool,
}

/// A decision of this process or of another.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    time: String,
    controller: String,
    action: String,
    target: Target,
    #[serde(default)]
    subresource: String,
    why: String,
    outcome: String,
    #[serde(default)]
    detail: String,
}

#[derive(Debug, Deserialize)]
struct Target {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
}

impl Target {
    fn text(&self) -> String {
        let kind = self.kind.to_lowercase();
        match (kind.as_str(), self.namespace.as_str()) {
            ("", "") => self.name.clone(),
            ("", namespace) => format!("{namespace}/{}", self.name),
            (kind, "") => format!("{kind} {}", self.name),
            (kind, namespace) => format!("{kind} {namespace}/{}", self.name),
        }
    }
}

fn paint(colour: bool, code: &str, text: &str) -> String {
    match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// The controller, padded to a column.
fn who(controller: &str) -> String {
    format!("{:<24}", controller.trim_end_matches("-controller"))
}

impl Line {
    pub(crate) fn of(decision: &Decision) -> Self {
        let (outcome, detail) = match &decision.outcome {
            Outcome::Done => ("done", String::new()),
            Outcome::Refused(why) => ("refused", why.clone()),
            Outcome::Unknown(why) => ("unknown", why.clone()),
            Outcome::NotSent(why) => ("not-sent", why.clone()),
        };
        let target = &decision.target;
        Self {
            time: decision.time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            controller: decision.controller.to_owned(),
            action: decision.action.to_owned(),
            target: Target {
                kind: target.kind.to_string(),
                namespace: target.namespace.to_string(),
                name: target.name.to_string(),
            },
            subresource: decision.subresource.to_string(),
            why: decision.why.to_string(),
            outcome: outcome.to_owned(),
            detail,
        }
    }

    /// `12:00:01.234  replicaset-controller  creates pod default/web-abc: 2 of 3 replicas are there`
    pub(crate) fn text(&self, colour: bool) -> String {
        let paint = |code: &str, text: &str| paint(colour, code, text);
        // Without the date, which is the same for nearly all lines of a session.
        let time = self.time.get(11..23).unwrap_or(&self.time);
        let (verb, verb_colour) = self.verb();
        let mut line = format!(
            "{}  {}  {} {}  {}",
            paint("2", time),
            paint("36", &who(&self.controller)),
            paint(verb_colour, &verb),
            paint("1", &self.target.text()),
            paint("2", &self.why)
        );
        if self.outcome != "done" {
            line.push_str(&paint("31", &format!("  [{}: {}]", self.outcome, self.detail)));
        }
        line
    }

    fn verb(&self) -> (String, &'static str) {
        match (self.action.as_str(), self.subresource.as_str()) {
            ("create", "binding") => ("binds".to_owned(), "32"),
            ("create", "") => ("creates".to_owned(), "32"),
            ("delete", _) => ("deletes".to_owned(), "31"),
            ("update" | "patch", "status") => ("reports on".to_owned(), "34"),
            ("update", "") => ("updates".to_owned(), "33"),
            ("patch", "") => ("patches".to_owned(), "33"),
            (action, subresource) => (format!("{action}s {subresource} of"), "33"),
        }
    }
}

pub(crate) fn line(decision: &Decision, style: Style) -> String {
    match style.format {
        LogFormat::Json => serde_json::to_string(decision).unwrap_or_default(),
        LogFormat::Text => Line::of(decision).text(style.colour),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_did_what_to_what_and_why() {
        let decision = serde_json::json!({
            "time": "2026-01-02T03:04:05.678901Z", "controller": "replicaset-controller", "action": "create",
            "target": {"kind": "Pod", "namespace": "default", "name": "web-1"}, "why": "1 of 3 is missing",
            "outcome": "done",
        });
        let line: Line = serde_json::from_value(decision).unwrap();
        let want = "03:04:05.678  replicaset                creates pod default/web-1  1 of 3 is missing";
        assert_eq!(line.text(false), want);
        let failed = Line { outcome: "refused".to_owned(), detail: "quota".to_owned(), ..line };
        assert_eq!(failed.text(false), format!("{want}  [refused: quota]"));
        assert!(failed.text(true).contains("\x1b[31m"));
    }
}
