//! What the server says about a request that failed: its `Status` object, or what is known without one.

use std::fmt;
use std::time::Duration;

use flyball_api::protobuf::{self, Envelope};
use serde::Deserialize;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::request::Request;

/// The server's response to a request that failed: a `Status` object, or what is known without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiStatus {
    pub code: u16,
    pub reason: SmolStr,
    /// Human-readable. Upstream's controllers quote it in events.
    pub message: String,
    pub details: StatusDetails,
    /// How long to wait before trying again, from the header or the details.
    pub retry_after: Option<Duration>,
    /// Until when a write may still be carried out after this response, if it is that of a proxy that has not waited for the server.
    pub open_until: Option<Instant>,
}

impl fmt::Display for ApiStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// `details` of a `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    pub name: SmolStr,
    pub group: SmolStr,
    /// Its kind, or often its resource.
    pub kind: SmolStr,
    pub uid: SmolStr,
    pub causes: Vec<StatusCause>,
    /// Zero if the server does not set it.
    pub retry_after_seconds: i64,
}

/// One cause of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// Machine-readable, such as `NamespaceTerminating` or `FieldValueInvalid`.
    pub reason: SmolStr,
    pub message: String,
    /// The path of the field at fault.
    pub field: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    kind: SmolStr,
    code: i64,
    reason: SmolStr,
    message: String,
    details: Option<StatusDetails>,
}

impl WireStatus {
    /// Errors have the encoding of the response that they replace, so the bytes decide.
    fn read(body: &[u8]) -> serde_json::Result<Self> {
        if !Envelope::is_there(body) {
            return serde_json::from_slice(body);
        }
        let envelope = Envelope::open(body)?;
        Ok(Self { kind: envelope.kind.into(), ..protobuf::decode(envelope.message()?, envelope.raw)? })
    }
}

/// Longest piece of a foreign error page that is quoted.
const QUOTED: usize = 300;

/// The cause that marks an answer without a `Status`; its message is what the server said instead.
const UNEXPECTED: SmolStr = SmolStr::new_static("UnexpectedServerResponse");

impl ApiStatus {
    /// Reads the response to a failed request. A 409 means that the name is taken if `creating`, otherwise a conflict.
    pub(crate) fn from_answer(code: u16, creating: bool, retry_after: Option<Duration>, body: &[u8]) -> Self {
        match WireStatus::read(body) {
            Ok(wire) if wire.kind == "Status" => {
                let mut status = Self::from_wire(wire, code);
                status.retry_after = retry_after.or(status.retry_after);
                if status.reason.is_empty() {
                    status.reason = generic_reason(code, creating);
                }
                status
            }
            _ => {
                let said = quoted(body);
                Self {
                    code,
                    reason: generic_reason(code, creating),
                    message: generic_message(code, &said),
                    details: StatusDetails {
                        causes: vec![StatusCause { reason: UNEXPECTED, message: said, field: String::new() }],
                        ..StatusDetails::default()
                    },
                    retry_after,
                    open_until: None,
                }
            }
        }
    }

    /// Whether the response had no `Status`, as those of proxies.
    pub(crate) fn is_foreign(&self) -> bool {
        self.details.causes.iter().any(|cause| cause.reason == UNEXPECTED)
    }

    /// Adds the name of the request, if the server did not include it.
    pub(crate) fn about(mut self, request: &Request) -> Self {
        if self.is_foreign() {
            let method = request.verb.method().as_str().to_lowercase();
            let name = request.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            self.message = format!("{} ({method} {}{name})", self.message, request.resource);
        }
        self
    }

    /// Parses a `Status` object inside another response (an ERROR frame of a watch).
    pub(crate) fn from_object(body: &[u8]) -> Result<Self, serde_json::Error> {
        WireStatus::read(body).map(|wire| Self::from_wire(wire, 500))
    }

    fn from_wire(wire: WireStatus, code: u16) -> Self {
        let details = wire.details.unwrap_or_default();
        let retry_after =
            u64::try_from(details.retry_after_seconds).ok().filter(|s| *s > 0).map(Duration::from_secs);
        let code = u16::try_from(wire.code).ok().filter(|c| *c >= 100).unwrap_or(code);
        let (reason, message) = (wire.reason, wire.message);
        Self { code, reason, message, details, retry_after, open_until: None }
    }
}

fn generic_reason(code: u16, creating: bool) -> SmolStr {
    SmolStr::new_static(match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 if creating => "AlreadyExists",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    })
}

/// client-go's texts, which controllers quote in events and conditions.
///
/// Upstream: apimachinery `errors.NewGenericServerResponse`.
fn generic_message(code: u16, said: &str) -> String {
    let fixed = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 406 | 415 if !said.is_empty() => said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 => "the server was unable to respond with a content type that the client supports",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the \
             request"
        }
        500.. => {
            return format!("an error on the server ({said:?}) has prevented the request from succeeding");
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}

/// The beginning of an error page that is not from an API server, on one line.
fn quoted(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.trim().chars().take(QUOTED).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use flyball_api::{Key, ResourceType};

    use super::*;
    use crate::error::Error;
    use crate::request::Verb;

    fn error(code: u16, creating: bool, body: &str) -> Error {
        Error::Status(Box::new(ApiStatus::from_answer(code, creating, None, body.as_bytes())))
    }

    #[test]
    fn details_and_causes_are_kept() {
        let body = r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"no",
            "details":{"name":"a","kind":"pods","retryAfterSeconds":7,
                       "causes":[{"reason":"NamespaceTerminating","message":"m","field":"metadata.namespace"}]}}"#;
        let error = error(403, true, body);
        assert!(error.has_cause("NamespaceTerminating"));
        assert!(!error.has_cause("Other"));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        assert_eq!(error.to_string(), "no");
        assert_eq!(error.status().map(|s| s.details.kind.as_str()), Some("pods"));
    }

    #[test]
    fn foreign_error_pages_are_quoted_briefly() {
        let page = format!("<html>\n{}", "x".repeat(5000));
        let text = error(502, false, &page).to_string();
        assert!(text.starts_with("an error on the server (\"<html> xxx"), "{text}");
        assert!(text.len() < 400);
    }

    #[test]
    fn responses_without_a_status_name_the_request() {
        let pods = ResourceType::new("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", true);
        let list = Request::collection(Verb::List, &pods, Some("ns"));
        let put = Request::object(Verb::Update, &pods, &Key::new("ns", "a"), None);
        let status = r#"{"kind":"Status","message":"no","code":404}"#;
        #[rustfmt::skip]
        let table = [
            (404, &list, "404 page not found",  "the server could not find the requested resource (get pods.metrics.k8s.io)"),
            (503, &list, "service unavailable", "the server is currently unable to handle the request (get pods.metrics.k8s.io)"),
            (403, &put,  "not you",             "not you (put pods.metrics.k8s.io a)"),
            (302, &put,  "",                    "the server responded with the status code 302 but did not return more information (put pods.metrics.k8s.io a)"),
            (404, &list, status,                "no"),
        ];
        for (code, request, body, want) in table {
            let answer = ApiStatus::from_answer(code, false, None, body.as_bytes());
            assert_eq!(answer.about(request).message, want);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_body_panics(code in 100u16..1000, creating: bool, body: Vec<u8>) {
            ApiStatus::from_answer(code, creating, None, &body);
            let _ = ApiStatus::from_object(&body);
        }
    }
}
