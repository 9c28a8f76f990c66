//! Responses with the headers that keep a browser from doing more than the page needs.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde::Serialize;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;
pub type Answer = Response<Body>;

pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

/// Scripts and styles come from here only, there are no inline ones, and no text can become one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(crate) fn with_body(code: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

pub(crate) fn answer(code: StatusCode, content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    with_body(code, content_type, Full::new(bytes.into()).boxed_unsync())
}

/// A line of text, for people.
pub(crate) fn text(code: StatusCode, line: &str) -> Answer {
    answer(code, PLAIN, format!("{line}\n"))
}

pub(crate) fn json(code: StatusCode, value: &impl Serialize) -> Answer {
    answer(code, JSON, serde_json::to_vec(value).unwrap_or_default())
}

/// An error that the page shows.
pub(crate) fn problem(code: StatusCode, text: &str) -> Answer {
    json(code, &serde_json::json!({ "error": text }))
}

pub(crate) fn redirect(code: StatusCode, to: &'static str) -> Answer {
    let mut answer = text(code, to);
    answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static(to));
    answer
}
