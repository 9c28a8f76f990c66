//! Why an expression has no value.

use std::fmt;

/// Why an expression has no value, in cel-go's words.
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

    /// The expression cost more than it may. Unlike other errors, no `||` saves it.
    pub(crate) fn over_budget() -> Self {
        Self { message: "operation cancelled: actual cost limit exceeded".to_owned(), is_final: true }
    }

    pub(crate) fn final_one(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_final: true }
    }

    /// Whether evaluation ended here rather than one operation failed.
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
