//! What a rule found, and the whole explanation of an object.

use serde::Serialize;

use crate::object::{Obj, Ref};

/// How much a finding explains. The derived order is the order of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Nothing happens until a user changes something.
    Blocks,
    /// Something is under way, and ends by itself.
    Waits,
    /// Worth knowing; it does not explain the state alone.
    Notes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    pub weight: Weight,
    /// The object that has the problem: not always the one that was asked about.
    pub about: Ref,
    /// Other objects with the same problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Ref>,
    pub text: String,
    /// What usually helps.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub fn new(rule: &'static str, weight: Weight, about: Obj<'_>, text: impl Into<String>) -> Self {
        Self { rule, weight, about: about.named(), also: Vec::new(), text: text.into(), advice: None }
    }

    pub fn blocks(rule: &'static str, about: Obj<'_>, text: impl Into<String>) -> Self {
        Self::new(rule, Weight::Blocks, about, text)
    }

    pub fn waits(rule: &'static str, about: Obj<'_>, text: impl Into<String>) -> Self {
        Self::new(rule, Weight::Waits, about, text)
    }

    pub fn notes(rule: &'static str, about: Obj<'_>, text: impl Into<String>) -> Self {
        Self::new(rule, Weight::Notes, about, text)
    }

    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The text, with the object that it is about unless a reader of `asked` knows.
    pub fn text_for(&self, asked: &Ref) -> String {
        let name = |object: &Ref| match object.namespace == asked.namespace || object.namespace.is_empty() {
            true => object.short(),
            false => object.to_string(),
        };
        match (self.about == *asked, self.also.as_slice()) {
            (true, _) => self.text.clone(),
            (false, []) => format!("{}: {}", name(&self.about), self.text),
            (false, [other]) => format!("{} and {}: {}", name(&self.about), other.name, self.text),
            (false, others) => format!("{} and {} more: {}", name(&self.about), others.len(), self.text),
        }
    }

    /// The same finding, with the object in the text: for a rule that answers for another object.
    pub fn carried(&self, asked: Obj<'_>) -> String {
        self.text_for(&asked.named())
    }
}

/// One object of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Level {
    pub depth: usize,
    pub object: Ref,
    pub state: String,
    /// Whether it is as it should be.
    pub healthy: bool,
    /// Its main problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// RFC 3339.
    pub time: String,
    /// The controller, or the user's field manager.
    pub who: String,
    pub what: String,
    pub object: Ref,
    /// `decision`, `write` (from managedFields), `event` or `object`.
    pub source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub object: Ref,
    /// One line: how the object is.
    pub state: String,
    pub healthy: bool,
    /// The current blocker first, then the rest.
    pub findings: Vec<Finding>,
    /// Owners, the object, dependents, and what they use.
    pub tree: Vec<Level>,
    /// What controllers say that they wait for.
    pub waiting: Vec<String>,
    pub history: Vec<Entry>,
    /// What could not be found out, and why.
    pub unknown: Vec<String>,
}

impl Explanation {
    pub fn blocker(&self) -> Option<&Finding> {
        self.findings.first().filter(|finding| finding.weight != Weight::Notes)
    }
}
