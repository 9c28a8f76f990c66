//! The API server as a source: requests to the client, and what its errors mean for an informer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_api::{Key, ResourceType};
use flyball_client::{self as client, Client, Error, List, ListParams, WatchParams};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use smol_str::{SmolStr, format_smolstr};

use crate::informers::Filter;
use crate::source::{Class, Event, EventKind, Events, Failure, Form, Page, Source, WatchFrom};

/// Lists and watches one resource, or a part of it, through an API client.
pub(crate) struct ClientSource {
    client: Client,
    resource: ResourceType,
    filter: Filter,
    form: Form,
    /// Whether protobuf is requested. Becomes false if it could not be read, and stays so.
    protobuf: AtomicBool,
}

impl ClientSource {
    pub(crate) fn new(client: Client, resource: ResourceType, filter: Filter, form: Form) -> Self {
        let protobuf = AtomicBool::new(client.offers_protobuf(&resource, form == Form::Metadata));
        Self { client, resource, filter, form, protobuf }
    }

    /// Without a resourceVersion: always the newest state, never a cached one.
    fn list_params(&self, limit: u32, after: Option<String>) -> ListParams {
        ListParams {
            label_selector: self.filter.labels.as_deref().map(SmolStr::from),
            field_selector: self.filter.fields.as_deref().map(SmolStr::from),
            limit: Some(limit),
            continue_: after.map(SmolStr::from),
            metadata_only: self.form == Form::Metadata,
            protobuf: self.protobuf.load(Ordering::Relaxed),
            ..ListParams::default()
        }
    }

    fn watch_params(&self, from: WatchFrom, timeout: Duration) -> WatchParams {
        WatchParams {
            namespace: self.filter.namespace.clone(),
            label_selector: self.filter.labels.as_deref().map(SmolStr::from),
            field_selector: self.filter.fields.as_deref().map(SmolStr::from),
            resource_version: match from {
                WatchFrom::Scratch => None,
                WatchFrom::Version(version) => Some(format_smolstr!("{version}")),
            },
            send_initial_events: from == WatchFrom::Scratch,
            timeout_seconds: Some(u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            metadata_only: self.form == Form::Metadata,
            protobuf: self.protobuf.load(Ordering::Relaxed),
        }
    }
}

impl Source for ClientSource {
    fn page(&self, limit: u32, after: Option<String>) -> BoxFuture<'static, Result<Page, Failure>> {
        let (client, resource) = (self.client.clone(), self.resource.clone());
        let (namespace, params) = (self.filter.namespace.clone(), self.list_params(limit, after));
        let failure = failures(params.protobuf);
        async move {
            let list = client.list_raw(&resource, namespace.as_deref(), &params).await;
            let List { items, resource_version, continue_, .. } =
                list.map_err(|error| failure("listing", error))?;
            Ok(Page { items, version: resource_version, next: continue_.map(String::from) })
        }
        .boxed()
    }

    fn present(&self, name: Option<&Key>) -> BoxFuture<'static, Result<Page, Failure>> {
        let (client, resource) = (self.client.clone(), self.resource.clone());
        let mut params = self.list_params(1, None);
        let failure = failures(params.protobuf);
        let mut namespace = self.filter.namespace.clone();
        if let Some(Key { namespace: of, name }) = name {
            let by_name = format_smolstr!("metadata.name={name}");
            params.field_selector = Some(match params.field_selector {
                Some(others) => format_smolstr!("{others},{by_name}"),
                None => by_name,
            });
            namespace = namespace.or_else(|| (!of.is_empty()).then(|| of.clone()));
        }
        async move {
            let list = client.list_raw(&resource, namespace.as_deref(), &params).await;
            let List { items, resource_version: version, .. } =
                list.map_err(|error| failure("getting the current version", error))?;
            Ok(Page { items, version, next: None })
        }
        .boxed()
    }

    fn watch(&self, from: WatchFrom, timeout: Duration) -> BoxFuture<'static, Result<Events, Failure>> {
        let (client, resource) = (self.client.clone(), self.resource.clone());
        let params = self.watch_params(from, timeout);
        let failure = failures(params.protobuf);
        async move {
            let events =
                client.watch(&resource, &params).await.map_err(|error| failure("opening a watch", error))?;
            Ok(events.map(move |event| event.map(raw).map_err(|error| failure("watching", error))).boxed())
        }
        .boxed()
    }

    fn fall_back_to_json(&self) -> bool {
        self.protobuf.swap(false, Ordering::Relaxed)
    }
}

fn raw(event: client::WatchEvent) -> Event {
    let kind = match event.kind {
        client::EventKind::Added | client::EventKind::Modified => EventKind::Applied,
        client::EventKind::Deleted => EventKind::Deleted,
        client::EventKind::Bookmark => EventKind::Bookmark,
    };
    Event { kind, object: event.object }
}

/// How errors of a request are interpreted, depending on whether it offered protobuf.
fn failures(offered: bool) -> impl Fn(&'static str, Error) -> Failure + Send + 'static {
    move |doing, error| {
        let class = if offered && error.suggests_json() { Class::Encoding } else { class(&error) };
        Failure { class, doing, retry_after: error.retry_after(), cause: error.into() }
    }
}

fn class(error: &Error) -> Class {
    // Older servers set no cause, only a message. Upstream: client-go reflector.go, isTooLargeResourceVersionError.
    let too_large = error.has_cause("ResourceVersionTooLarge")
        || (error.is_timeout()
            && error.status().is_some_and(|s| s.message.contains("Too large resource version")));
    match error {
        _ if error.is_expired() || too_large => Class::VersionUnusable,
        // A resumed watch would send the same unreadable event again. A list does not contain it.
        Error::Decode { .. } | Error::TooLarge { .. } => Class::VersionUnusable,
        Error::Status(status) if matches!(status.code, 400 | 405 | 406 | 415 | 422) => Class::Refused,
        Error::Unreachable { .. } | Error::Deadline { .. } | Error::Credentials { .. } => Class::Unreachable,
        _ if error.is_not_found() => Class::NotServed,
        _ => Class::Passing,
    }
}

#[cfg(test)]
#[path = "tests/client_source.rs"]
mod tests;
