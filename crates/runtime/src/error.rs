//! Errors of syncs. The error alone decides whether the key is retried.

use std::borrow::Cow;
use std::fmt;

use flyball_client as client;

/// What to do with a key whose sync failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Retry with a growing delay.
    Backoff,
    /// A retry cannot help; a change of the object will requeue the key.
    Never,
}

/// A failed sync: what was attempted, on what, and why it failed.
#[derive(Debug)]
pub struct SyncError {
    doing: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    retry: Retry,
    category: &'static str,
    expected: bool,
}

impl SyncError {
    /// A request failed while `doing` something. For `map_err`.
    pub fn api(doing: impl Into<Cow<'static, str>>) -> impl FnOnce(client::Error) -> Self {
        let doing = doing.into();
        move |error| Self {
            category: category(&error),
            expected: error.is_conflict() || error.is_outdated(),
            doing,
            source: Some(Box::new(error)),
            retry: Retry::Backoff,
        }
    }

    /// Anything else that failed while `doing` something.
    pub fn other(
        doing: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            doing: doing.into(),
            source: Some(source.into()),
            retry: Retry::Backoff,
            category: "Other",
            expected: false,
        }
    }

    /// The object is invalid; only a change of it can help.
    pub fn invalid(what: impl Into<Cow<'static, str>>) -> Self {
        Self { doing: what.into(), source: None, retry: Retry::Never, category: "Invalid", expected: false }
    }

    /// The same error, not to be retried.
    pub fn never(mut self) -> Self {
        self.retry = Retry::Never;
        self
    }

    /// The same error, logged without a warning: something does not exist yet.
    pub fn expected(mut self) -> Self {
        self.expected = true;
        self
    }

    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// A short name for metrics.
    pub fn category(&self) -> &'static str {
        self.category
    }

    /// Whether this is normal (a conflict, a restore of etcd) and logged without a warning.
    pub fn is_expected(&self) -> bool {
        self.expected
    }

    /// The client's error that caused this one, if any.
    pub fn api_error(&self) -> Option<&client::Error> {
        self.source.as_ref()?.downcast_ref()
    }
}

fn category(error: &client::Error) -> &'static str {
    match error {
        _ if error.is_conflict() => "Conflict",
        _ if error.is_forbidden() => "Forbidden",
        _ if error.is_not_found() => "NotFound",
        _ if error.is_throttled() => "Throttled",
        _ if error.outcome_unknown() => "OutcomeUnknown",
        _ if error.is_outdated() => "Outdated",
        _ if error.is_held() => "Held",
        _ => "Api",
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.doing)
    }
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}
