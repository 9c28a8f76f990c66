//! One identity at one API server: rate limit, deadline, retries, and errors that show whether a write may have happened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use http_body::Body as _;
use http_body_util::BodyExt;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::encoding::Encoding;
use crate::error::Error;
use crate::fence::Fence;
use crate::frames::MAX_FRAME;
use crate::limiter::Limiter;
use crate::request::{Accept, Request, Verb, WatchParams, http_request};
use crate::status::ApiStatus;
use crate::transport::{Body, BoxError, Transport, TransportError};
use crate::watch::WatchStream;

/// The deadline of a read unless the options say otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(32);
/// The deadline of a write, longer than an API server may work on it (see [`CARRIED_OUT_WITHIN`]): a write that is given up while
/// slow webhooks are called is never made. Dead connections are noticed long before that.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(64);
/// An API server carries out no request for longer than this (`--request-timeout`).
pub const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(60);

/// A request that was not given up waited no longer than this for a new connection.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

/// How often a response with `Retry-After` is followed. Upstream: client-go rest/request.go.
const MAX_RETRIES: u32 = 10;
/// A longer `Retry-After` is returned to the caller as an error.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How often a read without a response is repeated, after a second, as in client-go.
const REREADS: u32 = 3;
const REREAD_AFTER: Duration = Duration::from_secs(1);
/// How long a watch may take to begin. API servers respond at once, unless they queue requests.
const WATCH_OPENS_WITHIN: Duration = Duration::from_secs(90);
/// The largest response that is held in memory: far larger than a page of the largest objects.
const MAX_ANSWER: usize = 1 << 30;
/// The same for an error response.
const MAX_REFUSAL: usize = 1 << 20;

#[derive(Clone)]
pub struct ClientOptions {
    /// See [`user_agent`](crate::user_agent()).
    pub user_agent: String,
    /// Requests per second; zero or less is no limit.
    pub qps: f64,
    /// Requests that may be sent at once before `qps` applies.
    pub burst: u32,
    /// Sent as `fieldManager` with writes. Without it, servers take the user agent's first word.
    pub field_manager: Option<SmolStr>,
    /// Time for each attempt of a read. Watches are exempt.
    pub timeout: Duration,
    /// The same for a write.
    pub write_timeout: Duration,
    pub observer: Option<Arc<dyn Observer>>,
    /// Checked before every attempt of a write.
    pub fence: Option<Fence>,
    /// Whether protobuf is requested where the caller can read it. Otherwise everything is JSON.
    pub protobuf: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: crate::user_agent(env!("CARGO_PKG_VERSION"), "", ""),
            qps: 20.0,
            burst: 30,
            field_manager: None,
            timeout: DEFAULT_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            observer: None,
            fence: None,
            protobuf: false,
        }
    }
}

impl ClientOptions {
    /// The same with this time for each attempt of any request, a write included.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { timeout: limit, write_timeout: limit, ..self }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user_agent, qps, burst, .. } = self;
        write!(f, "ClientOptions({user_agent:?}, {qps}/s, burst {burst})")
    }
}

/// Observes requests, for metrics.
pub trait Observer: Send + Sync + 'static {
    fn attempted(&self, attempt: &Attempt<'_>);

    /// A request waited for the rate limit.
    fn throttled(&self, host: &str, method: &str, waited: Duration);
}

/// One attempt of a request.
#[derive(Debug, Clone)]
pub struct Attempt<'a> {
    pub host: &'a str,
    pub method: &'a str,
    /// Absent without a response.
    pub code: Option<u16>,
    /// Whether an earlier attempt of the same request failed.
    pub is_retry: bool,
    /// From sending until the response was read (for watches: began).
    pub elapsed: Duration,
    /// Size of the request's body.
    pub sent: usize,
    /// Size of the response's body, if it was read.
    pub received: usize,
}

/// A successful response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status code, 2xx.
    pub code: u16,
    pub body: Bytes,
    /// Protobuf is only requested by callers that can read it.
    pub(crate) encoding: Encoding,
}

/// One identity. Clones share connections and rate limit.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Arc<dyn Transport>,
    watch_transport: Arc<dyn Transport>,
    limiter: Arc<Limiter>,
    user_agent: HeaderValue,
    options: ClientOptions,
}

impl Client {
    /// A client whose watches share the transport with its requests.
    pub fn new(transport: Arc<dyn Transport>, options: ClientOptions) -> Self {
        Self::with_watches(transport.clone(), transport, options)
    }

    /// A client with connections of their own for watches.
    pub fn with_watches(
        transport: Arc<dyn Transport>,
        watch_transport: Arc<dyn Transport>,
        options: ClientOptions,
    ) -> Self {
        let limiter = Arc::new(Limiter::new(options.qps, options.burst));
        let user_agent = header(&options.user_agent);
        Self { inner: Arc::new(Inner { transport, watch_transport, limiter, user_agent, options }) }
    }

    /// The same identity with another user agent and its own rate limit.
    pub fn named(&self, user_agent: &str) -> Self {
        self.with_options(ClientOptions { user_agent: user_agent.to_owned(), ..self.inner.options.clone() })
    }

    /// The same identity with other options, such as the shorter deadline of leader election.
    pub fn with_options(&self, options: ClientOptions) -> Self {
        Self::with_watches(self.inner.transport.clone(), self.inner.watch_transport.clone(), options)
    }

    pub fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    /// Whether lists and watches of a resource (or of its metadata) request protobuf if their parameters allow it.
    pub fn offers_protobuf(&self, resource: &flyball_api::ResourceType, metadata_only: bool) -> bool {
        let params = WatchParams { metadata_only, protobuf: true, ..WatchParams::default() };
        self.offers(&params.request(resource))
    }

    /// Whether this request offers protobuf.
    pub(crate) fn offers(&self, request: &Request) -> bool {
        self.inner.options.protobuf && request.offers_protobuf()
    }

    /// Sends a request, follows `Retry-After`, and repeats reads without a response.
    pub async fn request(&self, mut request: Request) -> Result<Reply, Error> {
        if let Some(manager) = &self.inner.options.field_manager
            && matches!(request.verb, Verb::Create | Verb::Update | Verb::Patch)
            && !request.query.iter().any(|(name, _)| *name == "fieldManager")
        {
            request.query.push(("fieldManager", manager.clone()));
        }
        let http = request
            .to_http(&self.inner.user_agent, self.inner.options.protobuf)
            .map_err(|source| Error::Invalid { what: what(&request), source })?;
        self.call(http, request.verb, &request).await.map_err(|error| error.about(&request))
    }

    /// GETs any path, such as `/version`.
    pub async fn get_raw(&self, path: &str) -> Result<Reply, Error> {
        self.get_raw_as(path, Accept::Json).await
    }

    pub(crate) async fn get_raw_as(&self, path: &str, accept: Accept) -> Result<Reply, Error> {
        let name = format_args!("get {path}").to_string();
        let http =
            http_request(http::Method::GET, path.to_owned(), accept.header(false), &self.inner.user_agent)
                .map_err(|source| Error::Invalid { what: what(&name), source })?;
        self.call(http, Verb::Get, &name).await
    }

    async fn call(
        &self,
        http: http::Request<Bytes>,
        verb: Verb,
        name: &(dyn fmt::Display + Sync),
    ) -> Result<Reply, Error> {
        let mut attempt = 0;
        loop {
            self.wait_for_turn(http.method()).await;
            if verb.is_write()
                && let Some(fence) = &self.inner.options.fence
            {
                fence.check().map_err(|source| Error::Fenced { what: what(name), source })?;
            }
            let begun = Instant::now();
            let outcome = self.attempt(http.clone(), verb, attempt > 0).await;
            attempt += 1;
            let wait = match outcome {
                Outcome::Answered(reply) if (200..300).contains(&reply.code) => return Ok(reply),
                Outcome::Refused { code, retry_after, body } => {
                    let mut status = ApiStatus::from_answer(code, verb == Verb::Create, retry_after, &body);
                    if matches!(code, 502 | 504) && status.is_foreign() {
                        // A proxy has given up; the server may still be working on it.
                        status.open_until = Some(begun + CONNECTED_WITHIN + CARRIED_OUT_WITHIN);
                    }
                    let error = Error::Status(Box::new(status));
                    // A write that may have been made must not be made again.
                    let may_repeat = !(verb.is_write() && error.outcome_unknown());
                    match wait_before_retry(code, retry_after, attempt).filter(|_| may_repeat) {
                        Some(wait) => wait,
                        None => return Err(error),
                    }
                }
                Outcome::Answered(reply) => {
                    let status = ApiStatus::from_answer(reply.code, verb == Verb::Create, None, &reply.body);
                    return Err(Error::Status(Box::new(status)));
                }
                Outcome::Lost { .. } if !verb.is_write() && attempt <= REREADS => REREAD_AFTER,
                Outcome::Lost { source, until } if verb.is_write() => {
                    return Err(Error::OutcomeUnknown { what: what(name), source, until });
                }
                Outcome::Lost { source, .. } | Outcome::NotSent(source) => {
                    return Err(Error::Unreachable { what: what(name), source });
                }
                Outcome::TimedOut { limit, until } if verb.is_write() => {
                    let source = format!("no answer within {limit:?}").into();
                    return Err(Error::OutcomeUnknown { what: what(name), source, until: Some(until) });
                }
                Outcome::TimedOut { limit, .. } => return Err(Error::Deadline { what: what(name), limit }),
                Outcome::NoCredentials(problem) => {
                    return Err(Error::Credentials { what: what(name), problem: problem.into() });
                }
                Outcome::TooLarge => return Err(Error::TooLarge { what: what(name), limit: MAX_ANSWER }),
            };
            tracing::debug!(request = %name, attempt, ?wait, "trying again");
            tokio::time::sleep(wait).await;
        }
    }

    async fn wait_for_turn(&self, method: &http::Method) {
        let waited = self.inner.limiter.acquire().await;
        if let Some(observer) = &self.inner.options.observer {
            observer.throttled(self.inner.transport.host(), method.as_str(), waited);
        }
    }

    async fn attempt(&self, http: http::Request<Bytes>, verb: Verb, is_retry: bool) -> Outcome {
        let options = &self.inner.options;
        let limit = if verb.is_write() { options.write_timeout } else { options.timeout };
        let started = Instant::now();
        let (method, sent) = (http.method().clone(), http.body().len());
        let exchange = exchange(&*self.inner.transport, http);
        let timed_out =
            || Outcome::TimedOut { limit, until: started + CONNECTED_WITHIN + CARRIED_OUT_WITHIN };
        let outcome = tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| timed_out());
        if let Some(observer) = &self.inner.options.observer {
            let (code, received) = match &outcome {
                Outcome::Answered(reply) => (Some(reply.code), reply.body.len()),
                Outcome::Refused { code, body, .. } => (Some(*code), body.len()),
                _ => (None, 0),
            };
            let elapsed = started.elapsed();
            let host = self.inner.transport.host();
            observer.attempted(&Attempt {
                host,
                method: method.as_str(),
                code,
                is_retry,
                elapsed,
                sent,
                received,
            });
        }
        outcome
    }

    /// Watches a collection. The stream ends when the server ends it; it is not resumed.
    ///
    /// Watches do not count against the rate limit, as in client-go.
    pub async fn watch(
        &self,
        resource: &flyball_api::ResourceType,
        params: &WatchParams,
    ) -> Result<WatchStream, Error> {
        let request = params.request(resource);
        let what = what(&request);
        let http = match request.to_http(&self.inner.user_agent, self.inner.options.protobuf) {
            Ok(http) => http,
            Err(source) => return Err(Error::Invalid { what, source }),
        };
        let started = Instant::now();
        let opened = tokio::time::timeout(WATCH_OPENS_WITHIN, self.inner.watch_transport.send(http)).await;
        let code = opened.as_ref().ok().and_then(|r| r.as_ref().ok()).map(|r| r.status().as_u16());
        if let Some(observer) = &self.inner.options.observer {
            let (host, elapsed) = (self.inner.watch_transport.host(), started.elapsed());
            observer.attempted(&Attempt {
                host,
                method: "GET",
                code,
                is_retry: false,
                elapsed,
                sent: 0,
                received: 0,
            });
        }
        let response = match opened {
            Err(_) => return Err(Error::Deadline { what, limit: WATCH_OPENS_WITHIN }),
            Ok(Err(TransportError::Credentials(problem))) => {
                return Err(Error::Credentials { what, problem: problem.into() });
            }
            Ok(Err(
                TransportError::NotSent(source)
                | TransportError::Lost(source)
                | TransportError::Silent { source, .. },
            )) => {
                return Err(Error::Unreachable { what, source });
            }
            Ok(Ok(response)) => response,
        };
        let code = response.status().as_u16();
        if response.status().is_success() {
            let encoding = Encoding::of(response.headers());
            return Ok(WatchStream::new(response.into_body(), encoding, what, MAX_FRAME));
        }
        let after = retry_after(response.headers());
        let body =
            tokio::time::timeout(self.inner.options.timeout, read(response.into_body(), MAX_REFUSAL)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        Err(Error::Status(Box::new(ApiStatus::from_answer(code, false, after, &body))))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({:?} at {})", self.inner.options, self.inner.transport.host())
    }
}

/// The outcome of one attempt.
enum Outcome {
    Answered(Reply),
    Refused {
        code: u16,
        retry_after: Option<Duration>,
        body: Bytes,
    },
    /// A write may be carried out until then, if not by now.
    Lost {
        source: BoxError,
        until: Option<Instant>,
    },
    NotSent(BoxError),
    TimedOut {
        limit: Duration,
        until: Instant,
    },
    NoCredentials(String),
    TooLarge,
}

async fn exchange(transport: &dyn Transport, http: http::Request<Bytes>) -> Outcome {
    let response = match transport.send(http).await {
        Ok(response) => response,
        Err(TransportError::NotSent(error)) => return Outcome::NotSent(error),
        Err(TransportError::Lost(source)) => return Outcome::Lost { source, until: None },
        Err(TransportError::Silent { sent, source }) => {
            return Outcome::Lost { source, until: Some(sent + CARRIED_OUT_WITHIN) };
        }
        Err(TransportError::Credentials(problem)) => return Outcome::NoCredentials(problem),
    };
    let (head, body) = response.into_parts();
    let code = head.status.as_u16();
    let limit = if head.status.is_success() { MAX_ANSWER } else { MAX_REFUSAL };
    match (read(body, limit).await, head.status.is_success()) {
        (Ok(body), true) => Outcome::Answered(Reply { code, body, encoding: Encoding::of(&head.headers) }),
        // The status code is enough, even without the body.
        (body, false) => {
            Outcome::Refused { code, retry_after: retry_after(&head.headers), body: body.unwrap_or_default() }
        }
        (Err(ReadError::TooLarge), true) => Outcome::TooLarge,
        // The server has answered, so it has carried the request out.
        (Err(ReadError::Lost(source)), true) => Outcome::Lost { source, until: None },
    }
}

enum ReadError {
    TooLarge,
    Lost(BoxError),
}

/// The whole body; a single chunk is not copied.
async fn read(mut body: Body, limit: usize) -> Result<Bytes, ReadError> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(ReadError::Lost)?.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            let expected = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(limit);
            all.reserve(first.len() + data.len() + expected);
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
        if all.len() > limit {
            return Err(ReadError::TooLarge);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Upstream: client-go rest/with_retry.go, checkWait: 429 and any 5xx, if they have a `Retry-After`.
fn wait_before_retry(code: u16, retry_after: Option<Duration>, attempt: u32) -> Option<Duration> {
    let may = (code == 429 || code >= 500) && attempt <= MAX_RETRIES;
    retry_after.filter(|wait| may && *wait <= LONGEST_WAIT)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

pub(crate) fn what(name: &(dyn fmt::Display + Sync)) -> Box<str> {
    name.to_string().into()
}

/// Characters that are not allowed in a header are removed.
fn header(text: &str) -> HeaderValue {
    let clean: String = text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
    HeaderValue::try_from(clean).unwrap_or_else(|_| HeaderValue::from_static("kube-controller-manager"))
}

#[cfg(test)]
#[path = "tests/client.rs"]
mod tests;
