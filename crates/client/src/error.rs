//! Errors of requests: the server refused, the response was lost, or the server could not be reached.

use std::fmt;
use std::time::Duration;

use flyball_api::protobuf::{self, Envelope};
use serde::Deserialize;
use smol_str::SmolStr;

use crate::fence::Fenced;
use crate::request::Request;
use crate::transport::BoxError;

/// Why a request failed. The text does not repeat its source: print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused. The text is the server's own message, which is quoted in events.
    #[error("{0}")]
    Status(Box<ApiStatus>),
    /// A write was sent and its response was lost: it may or may not have been carried out.
    #[error("{what}: the response was lost, the outcome is unknown")]
    OutcomeUnknown {
        what: Box<str>,
        /// How the response was lost.
        #[source]
        source: BoxError,
    },
    /// The request did not reach a server, or (reads only) its response was lost.
    #[error("{what}: the API server could not be reached")]
    Unreachable {
        what: Box<str>,
        #[source]
        source: BoxError,
    },
    /// There are no credentials for the request.
    #[error("{what}: no credentials: {problem}")]
    Credentials { what: Box<str>, problem: Box<str> },
    /// A write was not sent, because this process may no longer lead.
    #[error("{what}: not sent")]
    Fenced {
        what: Box<str>,
        #[source]
        source: Fenced,
    },
    /// A read got no response in time.
    #[error("{what}: no response within {limit:?}")]
    Deadline { what: Box<str>, limit: Duration },
    /// The response cannot be decoded.
    #[error("{what}: the response cannot be read")]
    Decode {
        what: Box<str>,
        #[source]
        source: serde_json::Error,
    },
    /// A response, or one frame of a watch, is too large to be held in memory.
    #[error("{what}: the response is larger than {limit} bytes")]
    TooLarge {
        what: Box<str>,
        /// The most that is accepted.
        limit: usize,
    },
    /// The request cannot be expressed in HTTP or JSON.
    #[error("{what}: not a valid request")]
    Invalid {
        what: Box<str>,
        #[source]
        source: BoxError,
    },
}

impl Error {
    /// Adds the name of the request, if the server did not include it.
    pub(crate) fn about(self, request: &Request) -> Self {
        match self {
            Self::Status(status) => Self::Status(Box::new(status.about(request))),
            other => other,
        }
    }

    /// The server's response, if there was one.
    pub fn status(&self) -> Option<&ApiStatus> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The server's reason (`NotFound`, `Conflict`, …); empty without a response.
    pub fn status_reason(&self) -> &str {
        self.status().map_or("", |s| s.reason.as_str())
    }

    /// The HTTP status code, if there was a response.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|s| s.code)
    }

    /// The object (or the resource) does not exist.
    pub fn is_not_found(&self) -> bool {
        self.is(404, "NotFound")
    }

    /// The object has changed since it was read, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.status_reason() == "Conflict"
    }

    /// An object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status_reason() == "AlreadyExists"
    }

    /// The requested version has been compacted: list again.
    pub fn is_expired(&self) -> bool {
        self.is(410, "Expired") || self.status_reason() == "Gone"
    }

    /// Not allowed; also for an exceeded quota and a terminating namespace.
    pub fn is_forbidden(&self) -> bool {
        self.is(403, "Forbidden")
    }

    /// The object is invalid: a retry cannot help.
    pub fn is_invalid(&self) -> bool {
        self.is(422, "Invalid")
    }

    /// The credentials were not accepted.
    #[cfg(test)]
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.is(401, "Unauthorized")
    }

    /// The server refuses requests because there are too many.
    pub fn is_throttled(&self) -> bool {
        self.is(429, "TooManyRequests")
    }

    /// The server could not finish in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self.status_reason(), "Timeout" | "ServerTimeout") || matches!(self, Self::Deadline { .. })
    }

    /// The resource does not exist on this server under this verb.
    pub fn is_method_not_supported(&self) -> bool {
        self.is(405, "MethodNotAllowed")
    }

    /// Whether a write may have been made although it failed: the response was lost, or the server lost its connection to etcd
    /// during the write. Only a live read can show whether it was.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::OutcomeUnknown { .. } => true,
            Self::Status(s) => {
                matches!(s.reason.as_str(), "Timeout" | "ServerTimeout")
                    || matches!(s.code, 502 | 504)
                    || s.code == 500 && lost_its_store(&s.message)
                    || s.code == 503 && s.details.causes.iter().any(|cause| lost_its_server(&cause.message))
            }
            // The server accepted the write; only its response cannot be used.
            Self::Decode { .. } | Self::TooLarge { .. } => true,
            Self::Unreachable { .. }
            | Self::Credentials { .. }
            | Self::Fenced { .. }
            | Self::Deadline { .. }
            | Self::Invalid { .. } => false,
        }
    }

    /// The `Retry-After` of the response.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(|s| s.retry_after)
    }

    /// Whether the response has this cause, such as `NamespaceTerminating`.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.status().is_some_and(|s| s.details.causes.iter().any(|c| c.reason == reason))
    }

    fn is(&self, code: u16, reason: &str) -> bool {
        self.status().is_some_and(|s| if s.reason.is_empty() { s.code == code } else { s.reason == reason })
    }
}

/// Whether the server forwards an error of its etcd client that leaves the outcome of a write unknown. The server's own errors
/// ("Internal error occurred: …") happen before the write.
fn lost_its_store(message: &str) -> bool {
    const OPEN: [&str; 5] = ["Unavailable", "DeadlineExceeded", "Canceled", "Unknown", "Internal"];
    let code = message.strip_prefix("rpc error: code = ");
    message.contains("etcdserver")
        || code.is_some_and(|code| OPEN.iter().any(|open| code.starts_with(open)))
        || matches!(message, "context deadline exceeded" | "context canceled")
}

/// Whether a proxy, or the server as the proxy of an aggregated API, has lost the connection to its backend.
fn lost_its_server(message: &str) -> bool {
    message.contains("disconnect/reset before headers") || message.contains("error trying to reach service")
}

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
                }
            }
        }
    }

    /// Adds the name of the request, if the server did not include it.
    pub(crate) fn about(mut self, request: &Request) -> Self {
        if self.details.causes.iter().any(|cause| cause.reason == UNEXPECTED) {
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
        Self { code, reason: wire.reason, message: wire.message, details, retry_after }
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
    use crate::request::Verb;

    fn error(code: u16, creating: bool, body: &str) -> Error {
        Error::Status(Box::new(ApiStatus::from_answer(code, creating, None, body.as_bytes())))
    }

    #[test]
    fn responses_are_classified_by_reason_then_by_code() {
        type Is = fn(&Error) -> bool;
        #[rustfmt::skip]
        let table: [(&str, u16, bool, &str, Is); 12] = [
            ("not found",            404, false, r#"{"kind":"Status","reason":"NotFound","code":404}"#,       Error::is_not_found),
            ("not found, bare",      404, false, "404 page not found",                                        Error::is_not_found),
            ("conflict",             409, false, r#"{"kind":"Status","reason":"Conflict","code":409}"#,       Error::is_conflict),
            ("conflict, bare",       409, false, "",                                                          Error::is_conflict),
            ("already exists",       409, true,  r#"{"kind":"Status","reason":"AlreadyExists","code":409}"#,  Error::is_already_exists),
            ("already exists, bare", 409, true,  "",                                                          Error::is_already_exists),
            ("expired",              410, false, r#"{"kind":"Status","reason":"Expired","code":410}"#,        Error::is_expired),
            ("gone",                 410, false, r#"{"kind":"Status","reason":"Gone","code":410}"#,           Error::is_expired),
            ("forbidden",            403, false, r#"{"kind":"Status","reason":"Forbidden","code":403}"#,      Error::is_forbidden),
            ("invalid",              422, false, r#"{"kind":"Status","reason":"Invalid","code":422}"#,        Error::is_invalid),
            ("throttled",            429, false, "",                                                          Error::is_throttled),
            ("unauthorized",         401, false, r#"{"kind":"Status","reason":"Unauthorized","code":401}"#,   Error::is_unauthorized),
        ];
        for (case, code, creating, body, is) in table {
            let error = error(code, creating, body);
            assert!(is(&error), "{case}: {error:?}");
            let others = table.iter().filter(|row| row.1 != code && (row.4)(&error)).map(|row| row.0);
            assert_eq!(others.collect::<Vec<_>>(), Vec::<&str>::new(), "{case} is nothing else");
        }
    }

    #[test]
    fn only_a_lost_response_or_a_lost_store_leaves_the_outcome_unknown() {
        #[rustfmt::skip]
        let table = [
            (504, r#"{"kind":"Status","reason":"Timeout","code":504}"#,                                           true),
            (500, r#"{"kind":"Status","reason":"ServerTimeout","code":500}"#,                                     true),
            (500, r#"{"kind":"Status","code":500,"message":"etcdserver: request timed out"}"#,                    true),
            (500, r#"{"kind":"Status","code":500,"reason":"InternalError","message":"failed calling webhook"}"#,  false),
            (500, r#"{"kind":"Status","code":500,"message":"rpc error: code = Unavailable desc = error reading from server: EOF"}"#, true),
            (500, r#"{"kind":"Status","code":500,"message":"rpc error: code = ResourceExhausted desc = too large"}"#, false),
            (500, r#"{"kind":"Status","code":500,"message":"context deadline exceeded"}"#,                        true),
            (500, r#"{"kind":"Status","code":500,"reason":"InternalError","message":"Internal error occurred: failed calling webhook \"a\": context deadline exceeded"}"#, false),
            (503, "upstream connect error or disconnect/reset before headers. reset reason: connection termination", true),
            (502, "<html>bad gateway",                                                                            true),
            (409, r#"{"kind":"Status","reason":"Conflict","code":409}"#,                                          false),
            (503, "",                                                                                             false),
        ];
        for (code, body, want) in table {
            assert_eq!(error(code, false, body).outcome_unknown(), want, "{body}");
        }
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
