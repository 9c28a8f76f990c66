//! Faults of a request and its response.

use std::sync::Arc;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::{Fate, Faults, Link};

/// Sends a request, unless a fault prevents it, and returns its response, unless it is lost.
pub(super) async fn send(
    faults: &Faults,
    link: &Link,
    inner: Arc<dyn Transport>,
    request: http::Request<Bytes>,
    is_read: bool,
) -> Result<http::Response<Body>, TransportError> {
    // The client requests tokens by itself, with its own retries.
    if request.uri().path().ends_with("/token") {
        return inner.send(request).await;
    }
    let mix = &faults.mix;
    if faults.strikes_request(mix.not_sent) {
        return Err(TransportError::NotSent("a fault: not sent".into()));
    }
    if faults.strikes_request(mix.throttled) {
        return Ok(refusal(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"));
    }
    if faults.strikes_request(mix.server_error) {
        return Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"));
    }
    if is_read {
        return inner.send(request).await;
    }
    let is_event = request.uri().path().contains("/events");
    // This runs inside the sync that writes.
    if !is_event && faults.is_disaster(mix.panic) {
        std::panic::panic_any(super::Deliberate);
    }
    if mix.conflict > 0.0 && may_conflict(&request) && faults.strikes_request(mix.conflict) {
        return Ok(refusal(StatusCode::CONFLICT, "Conflict"));
    }
    if faults.strikes_request(mix.lost_request) {
        return Err(TransportError::Lost("a fault: the request was lost".into()));
    }
    let answer = inner.send(request).await;
    let done = answer.as_ref().is_ok_and(|answer| answer.status().is_success());
    if done && !is_event {
        match faults.wrote(link) {
            Some(Fate::Crash | Fate::Failover) => std::future::pending::<()>().await,
            // The response is lost with the connection, or late.
            Some(Fate::CutOff { .. }) => link.up().await,
            None => {}
        }
    }
    if done && !is_event && faults.restores() {
        return Err(TransportError::Lost("a fault: the server was restored".into()));
    }
    if faults.strikes_request(mix.lost_answer) {
        return Err(TransportError::Lost("a fault: the answer was lost".into()));
    }
    answer
}

/// Whether somebody else's write in between makes the server refuse this one. A precondition on the uid alone does not: it fails only
/// if another object has the name, and then its events follow.
fn may_conflict(request: &http::Request<Bytes>) -> bool {
    let names_a_version = |place: &str| {
        let body: Option<Value> = serde_json::from_slice(request.body()).ok();
        body.and_then(|body| body.pointer(place)?.as_str().map(|version| !version.is_empty()))
            .unwrap_or(false)
    };
    match *request.method() {
        Method::PUT => true,
        Method::PATCH => names_a_version("/metadata/resourceVersion"),
        Method::DELETE => names_a_version("/preconditions/resourceVersion"),
        _ => false,
    }
}

fn refusal(code: StatusCode, reason: &str) -> http::Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the simulation", "reason": reason, "code": code.as_u16(),
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = http::Response::new(body);
    *answer.status_mut() = code;
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_that_depend_on_a_version_conflict() {
        #[rustfmt::skip]
        let table = [
            ("PUT",    r#"{"metadata":{"name":"a"}}"#,                       true),
            ("PATCH",  r#"{"metadata":{"resourceVersion":"7"}}"#,            true),
            ("PATCH",  r#"{"metadata":{"uid":"u"},"spec":{}}"#,              false),
            ("PATCH",  r#"[{"op":"remove","path":"/metadata/labels/a"}]"#,   false),
            ("DELETE", r#"{"preconditions":{"uid":"u","resourceVersion":"7"}}"#, true),
            ("DELETE", r#"{"preconditions":{"uid":"u"}}"#,                   false),
            ("DELETE", "",                                                   false),
            ("POST",   r#"{"metadata":{"resourceVersion":"7"}}"#,            false),
        ];
        for (method, body, want) in table {
            let request = http::Request::builder().method(method).body(Bytes::from(body)).unwrap();
            assert_eq!(may_conflict(&request), want, "{method} {body}");
        }
    }
}
