//! list: consistent pages at the requested resourceVersion.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::Response;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Answer, Call, render};
use crate::error::{ApiError, Named};
use crate::http::message;
use crate::http::negotiate::{Accept, Format, View};
use crate::http::respond::{self, Body};
use crate::invalid::Cause;
use crate::resource::Resource;
use crate::store::{Entry, Key, Range};

/// How long a list waits for a future version, as in upstream.
const FUTURE_PATIENCE: Duration = Duration::from_secs(3);

/// Longer lists are sent in pieces.
const PIECES_FROM: usize = 1 << 20;
/// The approximate size of a piece.
const PIECE: usize = 128 * 1024;

const TOO_OLD: &str = "The resourceVersion for the provided list is too old.";
const CONTINUE_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

struct Wanted {
    at: Option<u64>,
    after: Option<Key>,
    limit: usize,
}

pub(super) async fn list(call: &Call<'_>) -> Result<Answer, ApiError> {
    let wanted = wanted(call).await?;
    let (labels, fields) = call.selectors()?;
    let namespace = call.resource.namespaced.then_some(call.info.namespace.as_deref()).flatten();
    let range = Range { namespace, after: wanted.after.clone(), at: wanted.at, limit: None };
    let page = call.server.store.list(&call.resource.shelf, &range).map_err(|_| match wanted.after {
        Some(_) => ApiError::expired(CONTINUE_TOO_OLD),
        None => ApiError::expired(TOO_OLD),
    })?;
    let selective = !labels.is_everything() || !fields.is_everything();
    let mut matching = page.entries.into_iter();
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    let mut more = false;
    for entry in matching.by_ref() {
        if selective && !(labels.matches(&entry.facets.labels) && fields.matches(&entry)) {
            continue;
        }
        if entries.len() == wanted.limit {
            more = true;
            break;
        }
        entries.push(entry);
    }
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if more && let Some(last) = entries.last() {
        metadata["continue"] = json!(token(page.version, &last.key));
        if !selective {
            metadata["remainingItemCount"] = json!(matching.len() + 1);
        }
    }
    Ok(answer(call, call.shown(entries).await?, &metadata).into())
}

/// A list in the representation that the client accepts.
pub(super) fn answer(call: &Call<'_>, entries: Vec<Arc<Entry>>, metadata: &Value) -> Response<Body> {
    if call.accept.view == View::Table {
        let rows = entries.iter().map(|entry| render::row(call, entry)).collect();
        return respond::value(200, &render::table(call, rows, metadata), call.accept);
    }
    if call.accept.format == Format::Protobuf {
        return match messages(call, &entries, metadata) {
            Ok(list) => respond::encoded(200, list, message::MEDIA_TYPE, call.accept),
            Err(error) => respond::refusal(&error, Accept::JSON),
        };
    }
    let size: usize = entries.iter().map(|entry| entry.size()).sum();
    let pieces = Pieces::new(call, entries, metadata);
    match size > PIECES_FROM && call.accept.format == Format::Json {
        true => respond::pieces(200, pieces, call.accept),
        false => respond::json(200, pieces.together(size), call.accept),
    }
}

/// The list in protocol buffers: all of it, since its length comes first.
fn messages(call: &Call<'_>, entries: &[Arc<Entry>], metadata: &Value) -> Result<Bytes, ApiError> {
    let items: Result<Vec<Bytes>, ApiError> =
        entries.iter().map(|entry| render::message(&call.resource, call.accept.view, entry)).collect();
    let (kind, version) = list_kind(&call.resource, call.accept.view);
    message::list((version.as_str(), kind), metadata, &items?)
}

fn list_kind(resource: &Resource, view: View) -> (&str, SmolStr) {
    match view {
        View::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".into()),
        _ => (resource.list_kind.as_str(), resource.api_version()),
    }
}

/// The text of a list, piece by piece, so that a long one is never in memory as a whole.
struct Pieces {
    resource: Arc<Resource>,
    view: View,
    head: String,
    entries: std::vec::IntoIter<Arc<Entry>>,
    begun: bool,
    ended: bool,
}

impl Pieces {
    fn new(call: &Call<'_>, entries: Vec<Arc<Entry>>, metadata: &Value) -> Self {
        let resource = &call.resource;
        let (kind, api_version) = list_kind(resource, call.accept.view);
        let head =
            format!("{{\"kind\":{kind:?},\"apiVersion\":{api_version:?},\"metadata\":{metadata},\"items\":[");
        Self {
            resource: Arc::clone(resource),
            view: call.accept.view,
            head,
            entries: entries.into_iter(),
            begun: false,
            ended: false,
        }
    }

    fn together(mut self, size: usize) -> Bytes {
        let mut out = BytesMut::with_capacity(size + 256);
        while !self.ended {
            self.write(&mut out, usize::MAX);
        }
        out.freeze()
    }

    /// Writes until there are `until` bytes, or to the end.
    fn write(&mut self, out: &mut BytesMut, until: usize) {
        if !self.begun {
            out.put_slice(self.head.as_bytes());
        }
        for entry in self.entries.by_ref() {
            if std::mem::replace(&mut self.begun, true) {
                out.put_u8(b',');
            }
            match self.view {
                View::Metadata => out.put_slice(&entry.partial()),
                _ if self.resource.converts() => out.put_slice(&render::whole(&self.resource, &entry)),
                // Built-in kinds leave kind and apiVersion to the list, as the real server does.
                _ if self.resource.custom.is_none() => {
                    out.put_u8(b'{');
                    out.put_slice(&entry.json_without_kind());
                }
                _ => out.put_slice(&entry.json()),
            }
            if out.len() >= until {
                return;
            }
        }
        out.put_slice(b"]}\n");
        self.ended = true;
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut out = BytesMut::with_capacity(PIECE + PIECE / 4);
        self.write(&mut out, PIECE);
        Some(out.freeze())
    }
}

async fn wanted(call: &Call<'_>) -> Result<Wanted, ApiError> {
    let query = call.query;
    let limit = query.number("limit")?.unwrap_or(0);
    let limit = usize::try_from(limit).ok().filter(|n| *n > 0).unwrap_or(usize::MAX);
    let version = match query.get("resourceVersion") {
        None => None,
        Some(text) => Some(text.parse::<u64>().map_err(|_| {
            let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            let cause = Cause::invalid("resourceVersion", text, &detail);
            ApiError::bad_request(format!("{}: {}", cause.field, cause.message))
        })?),
    };
    let matching = query.get("resourceVersionMatch");
    if let Some(text) = query.get("continue") {
        if version.is_some_and(|v| v > 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let (at, after) = read_token(text)?;
        if let Some(at) = at.filter(|at| *at > call.server.store.version()) {
            return Err(ApiError::version_too_large(at, call.server.store.version()));
        }
        return Ok(Wanted { at, after: Some(after), limit });
    }
    let exact = match (matching, version) {
        (Some(_), None) => {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return Err(invalid_options(Cause::forbidden("resourceVersionMatch", detail)));
        }
        (Some("Exact"), Some(0)) => {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            return Err(invalid_options(Cause::forbidden("resourceVersionMatch", detail)));
        }
        (Some("Exact"), _) => true,
        (Some("NotOlderThan"), _) => false,
        (Some(other), _) => {
            let allowed = ["Exact", "NotOlderThan", ""];
            return Err(invalid_options(Cause::not_supported("resourceVersionMatch", other, &allowed)));
        }
        // A page at a given version must show exactly that version.
        (None, Some(version)) => version > 0 && limit != usize::MAX,
        (None, None) => false,
    };
    if let Some(version) = version {
        reach(call, version).await?;
    }
    Ok(Wanted { at: version.filter(|_| exact), after: None, limit })
}

/// Waits until the store has reached a version.
pub(super) async fn reach(call: &Call<'_>, version: u64) -> Result<(), ApiError> {
    let store = &call.server.store;
    let current = store.version();
    if version <= current {
        return Ok(());
    }
    let deadline = tokio::time::Instant::now() + FUTURE_PATIENCE;
    let mut moved =
        call.server.store.follow(&call.resource.shelf, current).map_err(|_| ApiError::expired(TOO_OLD))?;
    while store.version() < version {
        // Otherwise the shelf was dropped.
        if !tokio::time::timeout_at(deadline, moved.changed()).await.unwrap_or(false) {
            return Err(ApiError::version_too_large(version, store.version()));
        }
    }
    Ok(())
}

fn invalid_options(cause: Cause) -> ApiError {
    ApiError::invalid(Named { group: "meta.k8s.io", what: "ListOptions", name: "" }, &[cause])
}

fn token(version: u64, last: &Key) -> String {
    let start = if last.namespace.is_empty() {
        format!("{}\u{0}", last.name)
    } else {
        format!("{}/{}\u{0}", last.namespace, last.name)
    };
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": version, "start": start}).to_string())
}

fn read_token(text: &str) -> Result<(Option<u64>, Key), ApiError> {
    let bad = |why: &str| {
        ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    };
    let bytes =
        URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| bad(&error.to_string()))?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
    let start = token["start"].as_str().ok_or_else(|| bad("it has no start"))?.trim_end_matches('\u{0}');
    let (namespace, name) = start.split_once('/').unwrap_or(("", start));
    let version = token["rv"].as_i64().ok_or_else(|| bad("it has no version"))?;
    Ok((u64::try_from(version).ok().filter(|v| *v > 0), Key::new(namespace, name)))
}
