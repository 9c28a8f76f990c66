//! Every error response of the server, as the `Status` object that clients parse. Texts are the real server's, since users and
//! programs match on them.

use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use crate::invalid::Cause;

#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub code: u16,
    /// Machine-readable reason; may be empty.
    pub reason: SmolStr,
    pub message: String,
    /// `details` of the Status, if any.
    pub details: Option<Value>,
}

/// A resource as messages name it: `pods`, `deployments.apps`.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    pub group: &'a str,
    /// Plural name, or kind where the message contains the kind.
    pub what: &'a str,
    /// Object name; may be empty.
    pub name: &'a str,
}

impl Named<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.what.to_owned() } else { format!("{}.{}", self.what, self.group) }
    }

    fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, value) in [("name", self.name), ("group", self.group), ("kind", self.what)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), json!(value));
            }
        }
        details
    }
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let reason = SmolStr::new_static(reason);
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, named: Named<'_>) -> Self {
        self.details = Some(Value::Object(named.details()));
        self
    }

    /// 404 for an object.
    pub fn not_found(named: Named<'_>) -> Self {
        let message = format!("{} {:?} not found", named.qualified(), named.name);
        Self::new(404, "NotFound", message).about(named)
    }

    /// 404 for a resource that is not served.
    pub fn no_such_resource() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(json!({}));
        error
    }

    /// 409: the name exists.
    pub fn already_exists(named: Named<'_>) -> Self {
        let message = format!("{} {:?} already exists", named.qualified(), named.name);
        Self::new(409, "AlreadyExists", message).about(named)
    }

    /// 409 with a special explanation.
    pub fn conflict(named: Named<'_>, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {:?}: {why}", named.qualified(), named.name);
        Self::new(409, "Conflict", message).about(named)
    }

    /// 409: the object was changed meanwhile.
    pub fn modified(named: Named<'_>) -> Self {
        Self::conflict(
            named,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: fields are wrong. `named.what` is the kind.
    pub fn invalid(named: Named<'_>, causes: &[Cause]) -> Self {
        let mut lines: Vec<String> = Vec::new();
        for cause in causes {
            let line = format!("{}: {}", cause.field, cause.message);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let list = match &lines[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {:?} is invalid: {list}", named.qualified(), named.name);
        let mut details = named.details();
        let causes = causes
            .iter()
            .map(|c| json!({"reason": c.fault.reason(), "message": c.message, "field": c.field}))
            .collect::<Vec<_>>();
        details.insert("causes".to_owned(), Value::Array(causes));
        Self { details: Some(Value::Object(details)), ..Self::new(422, "Invalid", message) }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403 with a special explanation.
    pub fn forbidden(named: Named<'_>, why: &str) -> Self {
        let qualified = named.qualified();
        let message = match (named.what.is_empty(), named.name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{qualified} is forbidden: {why}"),
            (false, false) => format!("{qualified} {:?} is forbidden: {why}", named.name),
        };
        Self::new(403, "Forbidden", message).about(named)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 410: the requested version is compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(405, "MethodNotAllowed", message);
        error.details = Some(json!({}));
        error
    }

    /// 406.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml, \
            application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message)
    }

    /// 406 in the words of upstream's router, which comes before the negotiation.
    pub fn no_representation() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
            application/vnd.kubernetes.protobuf";
        let mut error = Self::new(406, "NotAcceptable", message);
        error.details = Some(json!({}));
        error
    }

    /// 415.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 429 with the seconds to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u64) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message);
        if retry_after > 0 {
            error.details = Some(json!({"retryAfterSeconds": retry_after}));
        }
        error
    }

    /// 504: the requested version is in the future.
    pub fn version_too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        let details = json!({"causes": [cause], "retryAfterSeconds": 1});
        Self { details: Some(details), ..Self::new(504, "Timeout", message) }
    }

    /// 413.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: {}", message.into()))
    }

    /// 500.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let cause = json!({"causes": [{"message": message.to_string()}]});
        let text = format!("Internal error occurred: {message}");
        Self { details: Some(cause), ..Self::new(500, "InternalError", text) }
    }

    /// 503: the server that serves this group is unavailable.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// 500 without a reason, the real server's response to a malformed resourceVersion of a watch.
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Adds one cause to the details (`NamespaceTerminating`, `DisruptionBudget`).
    pub fn with_cause(mut self, cause: Value) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        if let Some(details) = details.as_object_mut() {
            let causes = details.entry("causes").or_insert_with(|| json!([]));
            if let Some(causes) = causes.as_array_mut() {
                causes.push(cause);
            }
        }
        self
    }

    /// Seconds to wait, for the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
