//! Errors of evaluation.

use std::fmt;

/// An error of evaluation, with cel-go's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: String,
    is_final: bool,
}

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_final: false }
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// The budget is exceeded.
    pub(crate) fn over_budget() -> Self {
        Self { message: "operation cancelled: actual cost limit exceeded".to_owned(), is_final: true }
    }

    pub(crate) fn new_final(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_final: true }
    }

    /// Whether the error ends the evaluation. Other errors can be absorbed: `error || true` is true.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
