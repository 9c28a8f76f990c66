//! Failures that no source reports: the reflector finds them itself.

use std::fmt::Display;

use crate::source::{Class, Failure};

pub(super) fn broken_off(doing: &'static str) -> Failure {
    Failure {
        class: Class::Passing,
        doing,
        retry_after: None,
        cause: "the server ended the watch too early".into(),
    }
}

/// The server returned a continue token that it had returned before: such a list would never end.
pub(super) fn repeated(resource: &impl Display, token: &str) -> Failure {
    let cause =
        format!("the server returned the continue token {token:?} of {resource} a second time").into();
    Failure { class: Class::Passing, doing: "listing by pages", retry_after: None, cause }
}

pub(super) fn unanswered() -> Failure {
    let cause = "the server did not respond within the timeout of the watch".into();
    Failure { class: Class::Passing, doing: "opening a watch", retry_after: None, cause }
}

pub(super) fn panicked() -> Failure {
    let cause = "a panic, logged where it happened".into();
    Failure {
        class: Class::VersionUnusable,
        doing: "handling what the server sent",
        retry_after: None,
        cause,
    }
}
