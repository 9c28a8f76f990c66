//! Errors of requests: the server refused (`status.rs`), the response was lost, or the server could not be reached.

use std::time::Duration;

use tokio::time::Instant;

use crate::encoding::Encoding;
use crate::fence::Fenced;
use crate::request::Request;
use crate::status::ApiStatus;
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
        /// Until when the server may still carry it out. If absent, it has done so, or it knows that nobody waits for it.
        until: Option<Instant>,
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
    /// A write was not sent, because etcd was restored, or may have been, since it was decided.
    #[error("{what}: not sent: etcd may have been restored since this was planned")]
    Outdated { what: Box<str> },
    /// A write was not sent: the budget for deletions holds it until an administrator lifts the hold.
    #[error("{what}: held: {why}")]
    Held { what: Box<str>, why: Box<str> },
    /// A read got no response in time.
    #[error("{what}: no response within {limit:?}")]
    Deadline { what: Box<str>, limit: Duration },
    /// The response cannot be decoded.
    #[error("{what}: the response cannot be read")]
    Decode {
        what: Box<str>,
        /// The encoding of the response.
        encoding: Encoding,
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

    /// The write was not sent, and should be decided on again.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Outdated { .. })
    }

    /// Whether the write was held back by the budget for deletions.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
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
            | Self::Outdated { .. }
            | Self::Held { .. }
            | Self::Deadline { .. }
            | Self::Invalid { .. } => false,
        }
    }

    /// Until when the server may still carry out a write of unknown outcome; `None` if a live read shows the outcome now.
    pub fn may_be_carried_out_until(&self) -> Option<Instant> {
        match self {
            Self::OutcomeUnknown { until, .. } => *until,
            Self::Status(status) => status.open_until,
            _ => None,
        }
    }

    /// Whether a request that offered protobuf may succeed without it: the response is protobuf that cannot be read, or the server
    /// refuses the encodings that were offered (some proxies and aggregated APIs do not look at the second one).
    pub fn suggests_json(&self) -> bool {
        match self {
            Self::Decode { encoding, .. } => *encoding == Encoding::Protobuf,
            _ => matches!(self.code(), Some(406 | 415)),
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

/// The same error for objects with secrets. serde's own text quotes the value that it did not expect.
pub fn without_quotes(error: &serde_json::Error) -> serde_json::Error {
    let (line, column) = (error.line(), error.column());
    let kind = format!("{:?}", error.classify()).to_lowercase();
    serde::de::Error::custom(format!("{kind} error (not quoted) at line {line} column {column}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
