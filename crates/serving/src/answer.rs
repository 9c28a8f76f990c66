//! Responses in the formats of upstream's server.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use serde::Serialize;

/// A response; nearly all bodies are whole.
pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

const NOSNIFF: (&str, &str) = ("x-content-type-options", "nosniff");
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";

pub(super) fn answer(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// Tells browsers not to guess the content type.
pub(super) fn nosniff(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(NOSNIFF.0, HeaderValue::from_static(NOSNIFF.1));
    answer
}

/// Removes the body, for HEAD requests: over HTTP/2 a body would break the stream.
pub(super) fn behead(answer: &mut Answer) {
    let length = answer.body().size_hint().exact().unwrap_or_default();
    *answer.body_mut() = Full::default().boxed_unsync();
    answer.headers_mut().insert(header::CONTENT_LENGTH, length.into());
}

pub(super) fn text(code: StatusCode, body: impl Into<Bytes>) -> Answer {
    nosniff(answer(code, PLAIN, body))
}

pub(super) fn headers_too_large() -> Answer {
    text(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "431 Request Header Fields Too Large\n")
}

pub(super) fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(super) fn unauthorized() -> Answer {
    status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
}

/// `what` is the sentence after "forbidden: ".
pub(super) fn forbidden(what: &str) -> Answer {
    let what = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let message = format!("forbidden: {what}");
    nosniff(status(StatusCode::FORBIDDEN, "Forbidden", &message, Some(Details {})))
}

pub(super) fn not_acceptable(accepted: &str) -> Answer {
    let message = format!("only the following media types are accepted: {accepted}");
    status(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", &message, None)
}

#[derive(Serialize)]
struct Details {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Details,
    status: &'static str,
    message: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

fn status(code: StatusCode, reason: &str, message: &str, details: Option<Details>) -> Answer {
    let status = Status {
        kind: "Status",
        api_version: "v1",
        metadata: Details {},
        status: "Failure",
        message,
        reason,
        details,
        code: code.as_u16(),
    };
    answer(code, "application/json", serde_json::to_vec_pretty(&status).unwrap_or_default())
}
