//! Writes responses: JSON, YAML or protocol buffers, compressed if the client accepts that, with warnings and Retry-After as headers.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{self, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;

use super::message;
use super::negotiate::{Accept, Format};
use crate::error::ApiError;

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of every response.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Shorter responses are not compressed, as in upstream.
const GZIP_FROM: usize = 128 * 1024;

/// A body of known bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A response with an object, given as JSON, in the format that the client accepts. What has no message stays JSON.
pub(crate) fn json(code: u16, bytes: Bytes, accept: Accept) -> Response<Body> {
    let object = || serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
    match accept.format {
        Format::Json => {}
        Format::Yaml => {
            let text = serde_yaml::to_string(&object()).unwrap_or_default();
            return with_type(code, Bytes::from(text), "application/yaml");
        }
        Format::Protobuf => match message::object(&object()) {
            Some(Ok(message)) => return encoded(code, message, message::MEDIA_TYPE, accept),
            Some(Err(error)) => return refusal(&error, Accept::JSON),
            None => {}
        },
    }
    encoded(code, bytes, "application/json", accept)
}

/// A response with bytes of a type, which are compressed if there are many.
pub(crate) fn encoded(code: u16, bytes: Bytes, media: &'static str, accept: Accept) -> Response<Body> {
    if accept.gzip && bytes.len() >= GZIP_FROM {
        let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::new(1));
        if encoder.write_all(&bytes).is_ok()
            && let Ok(packed) = encoder.finish()
        {
            let mut response = with_type(code, Bytes::from(packed), media);
            say_gzip(&mut response);
            return response;
        }
    }
    with_type(code, bytes, media)
}

/// A response with JSON that is produced piece by piece.
pub(crate) fn pieces(
    code: u16,
    pieces: impl Iterator<Item = Bytes> + Send + 'static,
    accept: Accept,
) -> Response<Body> {
    let frames = |pieces| {
        let frame = |piece: std::io::Result<Bytes>| piece.map(Frame::data).map_err(BoxError::from);
        StreamBody::new(stream::iter(pieces).map(frame)).boxed_unsync()
    };
    let mut response = with_type(code, Bytes::new(), "application/json");
    if accept.gzip {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(1));
        let packed = pieces.map(Some).chain([None]).map(move |piece| {
            match piece {
                Some(piece) => encoder.write_all(&piece)?,
                None => encoder.try_finish()?,
            }
            Ok(Bytes::from(std::mem::take(encoder.get_mut())))
        });
        let packed: Box<dyn Iterator<Item = _> + Send> = Box::new(packed);
        *response.body_mut() = frames(packed);
        say_gzip(&mut response);
    } else {
        let plain: Box<dyn Iterator<Item = _> + Send> = Box::new(pieces.map(Ok));
        *response.body_mut() = frames(plain);
    }
    response
}

fn say_gzip(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// A response with a JSON value.
pub(crate) fn value(code: u16, value: &Value, accept: Accept) -> Response<Body> {
    json(code, Bytes::from(value.to_string()), accept)
}

/// An error response.
pub(crate) fn refusal(error: &ApiError, accept: Accept) -> Response<Body> {
    let mut response = value(error.code, &error.status(), accept);
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A response with plain text.
pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    with_type(code, text.into(), "text/plain; charset=utf-8")
}

/// A response with bytes of a given type.
pub(crate) fn with_type(code: u16, bytes: Bytes, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Adds `Warning` headers.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(header) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, header);
        }
    }
}
