//! Faults of a request and its response.

use std::sync::Arc;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::Faults;

/// Sends a request, unless a fault prevents it, and returns its response, unless it is lost.
pub(super) async fn send(
    faults: &Faults,
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
    if request.method() == Method::PUT && faults.strikes_request(mix.conflict) {
        return Ok(refusal(StatusCode::CONFLICT, "Conflict"));
    }
    if faults.strikes_request(mix.lost_request) {
        return Err(TransportError::Lost("a fault: the request was lost".into()));
    }
    let answer = inner.send(request).await;
    let done = answer.as_ref().is_ok_and(|answer| answer.status().is_success());
    if done && !is_event && faults.wrote() {
        std::future::pending::<()>().await;
    }
    if done && !is_event && faults.restores() {
        return Err(TransportError::Lost("a fault: the server was restored".into()));
    }
    if faults.strikes_request(mix.lost_answer) {
        return Err(TransportError::Lost("a fault: the answer was lost".into()));
    }
    answer
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
