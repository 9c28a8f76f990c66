//! The client: sends a request, and retries it as `retry` decides.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Family, Stability};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::connect::{Connections, connections};
use crate::credentials::Credentials;
use crate::error::{BoxError, HttpError, OpenError, Problem};
use crate::retry::{ATTEMPTS, Outcome, wait};

/// How long an attempt may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The wait before the second attempt.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// The longest answer.
const LONGEST: usize = 16 << 20;
/// How much of an error's text is kept.
const EXCERPT: usize = 300;

static REQUESTS: Family = Family::counter(
    "cloud_http_requests_total",
    Stability::Alpha,
    &["api", "operation", "code"],
    "Requests to the API of a cloud, each attempt, by the status of the answer; `none` without one.",
);
static DURATION: Family = Family::histogram(
    "cloud_http_request_duration_seconds",
    Stability::Alpha,
    &["api", "operation"],
    &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0],
    "How long requests to the API of a cloud take, each attempt.",
);

/// A client of one API. Clones are cheap and share its connections.
///
/// - A request is sent up to four times (or [`with_attempts`](Self::with_attempts)): again after errors that pass (no connection,
///   429, 500, 502 to 504), with growing waits, or the wait that the server asks for, up to ten seconds. One that may not be
///   repeated, such as a POST, only if the server cannot have acted on it. Redirects are not followed.
/// - Every attempt counts in `cloud_http_requests_total` and `cloud_http_request_duration_seconds`.
/// - Credentials are put into every attempt, so a secret that changes meanwhile is the new one.
#[derive(Debug, Clone)]
pub struct Http {
    api: &'static str,
    base: String,
    connections: Connections,
    credentials: Credentials,
    headers: HeaderMap,
    metrics: Metrics,
    patience: Duration,
    attempts: u32,
    pub(crate) first_backoff: Duration,
}

impl Http {
    /// A client for the API at `base`, such as `https://api.example.com/v1`. `api` names it in metrics. It trusts what the machine
    /// trusts.
    ///
    /// # Errors
    /// `base` is not an http or https URL without a query.
    pub fn new(api: &'static str, base: &str, metrics: &Metrics) -> Result<Self, OpenError> {
        let is_known = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        let uri = base.parse().ok().filter(is_known).filter(|uri: &Uri| uri.query().is_none());
        if uri.is_none() {
            return Err(OpenError::Address(base.to_owned()));
        }
        Ok(Self {
            api,
            base: base.trim_end_matches('/').to_owned(),
            connections: connections(None)?,
            credentials: Credentials::none(),
            headers: HeaderMap::new(),
            metrics: metrics.clone(),
            patience: TIMEOUT,
            attempts: ATTEMPTS,
            first_backoff: FIRST_BACKOFF,
        })
    }

    /// The same, which trusts only the certificate authorities in a file (PEM).
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub fn with_authorities(self, file: &Path) -> Result<Self, OpenError> {
        Ok(Self { connections: connections(Some(file))?, ..self })
    }

    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// The same with a header in every request.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The same with another limit for the time of each attempt, which is 15 seconds otherwise.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same with another number of attempts; 1 for none but the first.
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Reads JSON.
    ///
    /// # Errors
    /// There is no answer, or it is an error, or not this JSON.
    pub async fn get<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<T, HttpError> {
        self.send(Call::get(operation, path)).await?.json()
    }

    /// Sends a request, and again as long as that makes sense.
    ///
    /// # Errors
    /// There is no answer, or its status is not one of success (2xx).
    pub async fn send(&self, call: Call) -> Result<Reply, HttpError> {
        let mut attempt = 1;
        loop {
            let began = Instant::now();
            let result = self.attempt(&call).await;
            let code = match &result {
                Ok(reply) => reply.status.as_str().to_owned(),
                Err(error) => {
                    error.status().map_or_else(|| "none".to_owned(), |status| status.as_str().to_owned())
                }
            };
            self.metrics.counter(&REQUESTS, &[self.api, call.operation, &code]).inc();
            let took = began.elapsed().as_secs_f64();
            self.metrics.histogram(&DURATION, &[self.api, call.operation]).observe(took);
            let error = match result {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let outcome = match &error.problem {
                Problem::Unreachable(_) => Outcome::NotSent,
                Problem::Broken(_) | Problem::Silent(_) => Outcome::Unknown,
                Problem::Status { status, .. } => Outcome::Answered(*status, error.retry_after),
                _ => return Err(error),
            };
            let pause = wait(attempt, self.first_backoff, call.is_repeatable, outcome);
            let Some(pause) = pause.filter(|_| attempt < self.attempts) else { return Err(error) };
            tracing::debug!(api = self.api, operation = call.operation, error = %flyball_runtime::Chain(&error), ?pause, "trying again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Reply, HttpError> {
        let request = || format!("{} {}{}", call.method, self.base, call.path);
        let failed = |problem| HttpError { request: request(), problem, retry_after: None };
        let mut unsigned = self.request(call).map_err(|error| failed(Problem::Unwritable(error)))?;
        self.credentials.sign(&mut unsigned).map_err(|error| failed(Problem::Unsigned(error)))?;
        let answer = async {
            let sent = self.connections.request(unsigned.map(Full::new)).await;
            let response = sent.map_err(|error| match error.is_connect() {
                true => Problem::Unreachable(error.into()),
                false => Problem::Broken(error.into()),
            })?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LONGEST).collect().await.map_err(|error| match error
                .is::<LengthLimitError>(
            ) {
                true => Problem::TooLong(LONGEST),
                false => Problem::Broken(error),
            })?;
            Ok((parts, body.to_bytes()))
        };
        let (parts, body) = match timeout(self.patience, answer).await {
            Ok(answer) => answer.map_err(failed)?,
            Err(_) => return Err(failed(Problem::Silent(self.patience))),
        };
        if parts.status.is_success() {
            return Ok(Reply { request: request(), status: parts.status, headers: parts.headers, body });
        }
        let text = excerpt(&body);
        let problem = Problem::Status { status: parts.status, text };
        Err(HttpError { retry_after: asked_wait(&parts.headers), ..failed(problem) })
    }

    fn request(&self, call: &Call) -> Result<Request<Bytes>, BoxError> {
        let uri: Uri = format!("{}{}", self.base, call.path).parse()?;
        let mut request = Request::new(call.body.clone().unwrap_or_default());
        (*request.method_mut(), *request.uri_mut()) = (call.method.clone(), uri);
        request.headers_mut().extend(self.headers.clone());
        if call.body.is_some() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request.headers_mut().extend(call.headers.clone());
        Ok(request)
    }
}

/// A request. Its path begins with a slash and follows the base of the client; it may have a query.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its name in metrics. There should be few.
    operation: &'static str,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Option<Bytes>,
    is_repeatable: bool,
}

impl Call {
    /// GET, HEAD, PUT and DELETE may be repeated, others not.
    pub fn new(operation: &'static str, method: Method, path: &str) -> Self {
        let is_repeatable = method.is_idempotent();
        Self {
            operation,
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: None,
            is_repeatable,
        }
    }

    pub fn get(operation: &'static str, path: &str) -> Self {
        Self::new(operation, Method::GET, path)
    }

    pub fn put(operation: &'static str, path: &str) -> Self {
        Self::new(operation, Method::PUT, path)
    }

    pub fn post(operation: &'static str, path: &str) -> Self {
        Self::new(operation, Method::POST, path)
    }

    pub fn delete(operation: &'static str, path: &str) -> Self {
        Self::new(operation, Method::DELETE, path)
    }

    /// With a body of JSON.
    pub fn json(self, body: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self { body: Some(serde_json::to_vec(body)?.into()), ..self })
    }

    /// With another body; its `Content-Type` is a header.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// It may be sent again although the server may have acted on it: for example a POST with an idempotency token.
    pub fn repeatable(self) -> Self {
        Self { is_repeatable: true, ..self }
    }
}

/// The answer to a request, whose status is one of success.
#[derive(Debug, Clone)]
pub struct Reply {
    request: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    /// # Errors
    /// The answer is not this JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HttpError> {
        serde_json::from_slice(&self.body).map_err(|error| HttpError {
            request: self.request.clone(),
            problem: Problem::Unreadable(error),
            retry_after: None,
        })
    }
}

/// A text as one segment of a path, whatever is in it.
///
/// ```
/// assert_eq!(flyball_outbound::segment("rack 1/../é"), "rack%201%2F..%2F%C3%A9");
/// ```
pub fn segment(text: &str) -> String {
    // Alone, dots would be steps in the path.
    if text.bytes().all(|byte| byte == b'.') {
        return text.replace('.', "%2E");
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escaped = text.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    escaped.collect()
}

/// `Retry-After`, if it is a number of seconds.
fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The beginning of a text, in one line.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
