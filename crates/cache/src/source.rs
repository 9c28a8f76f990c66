//! Where an informer's data comes from: the API server, or a script in tests.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::{Key, ResourceVersion};
use futures::future::BoxFuture;
use futures::stream::BoxStream;

/// Lists and watches one resource, or the part of it that a filter selects.
pub(crate) trait Source: Send + Sync + 'static {
    /// One page of the current state; `after` is the token that the page before ended with.
    fn page(&self, limit: u32, after: Option<String>) -> BoxFuture<'static, Result<Page, Failure>>;

    /// The object of that name, or any, or none, and the version of the server now.
    fn present(&self, name: Option<&Key>) -> BoxFuture<'static, Result<Page, Failure>>;

    /// Opens a stream of events.
    fn watch(&self, from: WatchFrom, timeout: Duration) -> BoxFuture<'static, Result<Events, Failure>>;
}

/// How much of each object is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

pub(crate) type Events = BoxStream<'static, Result<Event, Failure>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchFrom {
    /// With the whole current state as initial events, up to a bookmark that says so (a streaming list).
    Scratch,
    /// With whatever came after this version.
    Version(ResourceVersion),
}

/// A part of a list. All pages of a list show the state at one version.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Bytes>,
    pub(crate) version: ResourceVersion,
    /// What to ask the next page with; `None` on the last.
    pub(crate) next: Option<String>,
}

/// What a watch says about one object, undecoded.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) object: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// `ADDED` or `MODIFIED`: for a cache, the object is now so.
    Applied,
    Deleted,
    Bookmark,
}

/// Why a request or a stream failed, as far as it decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The version or page token is too old for the server, or newer than it knows: only a fresh list helps.
    VersionUnusable,
    /// The server does not do this, however often it is asked.
    Refused,
    /// Anything that may pass: unreachable, overloaded, forbidden until somebody grants it.
    Passing,
}

#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub(crate) struct Failure {
    pub(crate) class: Class,
    pub(crate) doing: &'static str,
    /// How long the server asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
    #[source]
    pub(crate) cause: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// The failure and all its causes in one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
