//! Where an informer's data comes from: the API server, or a script in tests.

use std::error::Error;
use std::time::Duration;

use flyball_api::{Key, ResourceVersion};
use flyball_client::{self as client, RawObject};
use futures::future::BoxFuture;
use futures::stream::BoxStream;

/// Lists and watches one resource, or the part of it that a filter selects.
pub(crate) trait Source: Send + Sync + 'static {
    /// One page of the current state; `after` is the continue token of the previous page.
    fn page(&self, limit: u32, after: Option<String>) -> BoxFuture<'static, Result<Page, Failure>>;

    /// The object of that name (or any, without a name), if it exists, and the server's current version.
    fn present(&self, name: Option<&Key>) -> BoxFuture<'static, Result<Page, Failure>>;

    fn watch(&self, from: WatchFrom, timeout: Duration) -> BoxFuture<'static, Result<Events, Failure>>;

    /// Requests JSON from now on. Returns whether it has requested protobuf so far.
    fn fall_back_to_json(&self) -> bool;
}

/// How much of each object is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

pub(crate) type Events = BoxStream<'static, Result<Event, Failure>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchFrom {
    /// With the current state as initial events, followed by a bookmark (a streaming list).
    Scratch,
    /// With the events after this version.
    Version(ResourceVersion),
}

/// A part of a list. All pages of a list show the state at one version.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<RawObject>,
    pub(crate) version: ResourceVersion,
    /// The continue token; `None` on the last page.
    pub(crate) next: Option<String>,
}

/// A watch event, undecoded.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) object: RawObject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// `ADDED` or `MODIFIED`, which is the same to a cache.
    Applied,
    Deleted,
    Bookmark,
}

/// The kinds of failures that are handled differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The version or continue token is too old for the server, or newer than its own: only a new list helps.
    VersionUnusable,
    /// Objects cannot be read as protobuf, or the server refuses it: JSON must be requested.
    Encoding,
    /// The server does not support the request.
    Refused,
    /// The server does not have the resource, at least not now.
    NotServed,
    /// There was no response.
    Unreachable,
    /// May be temporary: overloaded, forbidden.
    Passing,
}

#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub(crate) struct Failure {
    pub(crate) class: Class,
    pub(crate) doing: &'static str,
    /// From the Retry-After header.
    pub(crate) retry_after: Option<Duration>,
    #[source]
    pub(crate) cause: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// Whether the server cannot be reached, or has too much to do at present: all requests may fail alike, and a list would be the
    /// worst. A request that gets no response is another matter: behind some proxies that is so for watches alone.
    pub(crate) fn is_of_server(&self) -> bool {
        let is_unreachable = matches!(
            self.cause.downcast_ref(),
            Some(client::Error::Unreachable { .. } | client::Error::Credentials { .. })
        );
        is_unreachable || self.retry_after.is_some()
    }
}
