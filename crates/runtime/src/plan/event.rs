//! An event of a plan. Its text may end with something that is known only after a write.

use std::fmt;

use smol_str::SmolStr;

use crate::events::{EventType, ObjectRef, Recorder};

/// An event, about the object whose key is reconciled unless it names another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The object, if it is not the one that is reconciled.
    pub about: Option<Box<ObjectRef>>,
    pub type_: EventType,
    /// The reason, as in upstream.
    pub reason: SmolStr,
    pub message: Message,
}

/// The text of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Text(String),
    /// This text and the name that the server gave to the object.
    ThenName(String),
    /// This text and why the write failed.
    ThenError(String),
}

impl Event {
    pub fn normal(reason: impl Into<SmolStr>, message: impl Into<Message>) -> Self {
        Self { about: None, type_: EventType::Normal, reason: reason.into(), message: message.into() }
    }

    pub fn warning(reason: impl Into<SmolStr>, message: impl Into<Message>) -> Self {
        Self { about: None, type_: EventType::Warning, reason: reason.into(), message: message.into() }
    }

    /// Records it at once, about `object` unless it names another; for the few triggers that have no plan.
    pub fn record_without_plan(self, events: &Recorder, object: &ObjectRef) {
        let Self { about, type_, reason, message } = self;
        events.record(about.as_deref().unwrap_or(object), type_, reason, message.fill("", ""), vec![]);
    }

    /// The same event about another object.
    pub fn about(self, object: ObjectRef) -> Self {
        Self { about: Some(Box::new(object)), ..self }
    }
}

impl Message {
    /// The text, with the name or the error where it belongs.
    pub(super) fn fill(self, name: &str, error: &str) -> String {
        match self {
            Self::Text(text) => text,
            Self::ThenName(text) => text + name,
            Self::ThenError(text) => text + error,
        }
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.clone().fill("<name>", "<error>");
        write!(f, "event {:?} {}: {message}", self.type_, self.reason)?;
        match &self.about {
            Some(object) => write!(f, " ({} {})", object.kind, object.name),
            None => Ok(()),
        }
    }
}
