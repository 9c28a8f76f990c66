//! The connections of one identity to one server. HTTP/2 streams share connections up to a limit; HTTP/1.1 requests have one
//! each, which is reused when the response has been read. Dead connections are replaced on the next request.
//!
//! Connections are opened on tasks of their own: a request that is given up does not give up the connection that it waited for. So
//! a server that is slow at the TLS handshake is reached by requests that have less time than that takes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use crate::chain::Chain;
use crate::credentials::{Credentials, Snapshot};
use crate::dial::{Dialer, Link};
use crate::fence::Fence;
use crate::http2;
use crate::pulse::{SUSPECT_AFTER, SentMark};
use crate::transport::{Body, BoxError, Transport, TransportError, is_silence};

/// Idle HTTP/1.1 connections kept for the next request.
const MAX_IDLE: usize = 16;
/// Further connections that replace silent ones. There are so many only if servers accept connections and do not respond.
const MAX_SUSPECTS: usize = 8;
/// How often a request that certainly did not reach the server is sent again, on another connection.
const RESENDS: u32 = 3;
/// The delay before it is sent again for the second time, and twice as long before the third, to avoid a hot loop.
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// How many streams share an HTTP/2 connection (if the server allows as many), and how many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    streams: usize,
    connections: usize,
    /// Connections in use at once to a server without HTTP/2.
    http1: usize,
}

impl Limits {
    /// Requests come and go; Go's HTTP/2 servers allow 100 streams at once or more.
    pub(crate) const REQUESTS: Self = Self { streams: 90, connections: 4, http1: 256 };
    /// Watches are long, and share their connection's window. Over HTTP/1.1 each takes a connection for as long as it lasts, so
    /// there have to be more than there are resources.
    pub(crate) const WATCHES: Self = Self { streams: 50, connections: 64, http1: 4096 };
}

/// A [`Transport`] over real connections.
pub(crate) struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    dialer: Arc<Dialer>,
    credentials: Arc<Credentials>,
    limits: Limits,
    host: HeaderValue,
    /// Path of the server's URL.
    prefix: String,
    open: Arc<Mutex<Open>>,
    speaks_http1: AtomicBool,
    http1_slots: Arc<Semaphore>,
}

#[derive(Default)]
struct Open {
    shared: Vec<Arc<SharedConnection>>,
    idle: Vec<Http1>,
    /// The dial that is under way. There is only one, so that a thousand requests at once do not open a thousand connections; all of
    /// them wait for it, and fail if it fails.
    dialling: Option<Dial>,
}

type Dial = Shared<BoxFuture<'static, Dialled>>;

/// A new connection that requests share. `None` if it speaks HTTP/1.1, and is in the pool.
type Dialled = Result<Option<Arc<SharedConnection>>, Arc<str>>;

/// An HTTP/2 connection.
struct SharedConnection {
    connection: http2::Connection,
    streams: AtomicUsize,
    tls_generation: u64,
}

/// An HTTP/1.1 connection.
struct Http1 {
    sender: http1::SendRequest<Full<Bytes>>,
    tls_generation: u64,
}

/// An HTTP/1.1 connection that one request uses. Idle connections do not count towards the limit.
struct Single {
    connection: Http1,
    _slot: OwnedSemaphorePermit,
    wait: Wait,
}

/// The wait for the response to a request over HTTP/1.1, which has no pings. If it is given up, the idle connections are closed: they
/// have been silent for longer, and each would cost another request its time.
struct Wait {
    open: Arc<Mutex<Open>>,
    since: Option<Instant>,
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= SUSPECT_AFTER) {
            self.open.lock().idle.clear();
        }
    }
}

/// A new connection. One that is shared is in the pool.
enum Admitted {
    Shared(Arc<SharedConnection>),
    Single(Http1),
}

/// A permit to send one request.
enum Lease {
    Stream(Stream),
    Whole(Single),
}

/// One stream of a shared connection, counted until the response has been read.
struct Stream {
    shared: Arc<SharedConnection>,
    mark: SentMark,
    /// Its request is complete or has failed.
    is_over: bool,
}

impl Stream {
    fn open(shared: &Arc<SharedConnection>) -> Self {
        shared.streams.fetch_add(1, Ordering::Relaxed);
        Self { shared: shared.clone(), mark: shared.connection.pulse().mark(), is_over: false }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.streams.fetch_sub(1, Ordering::Relaxed);
        if !self.is_over {
            self.shared.connection.pulse().given_up(&self.mark);
        }
    }
}

impl Pool {
    pub(crate) fn new(
        dialer: Arc<Dialer>,
        credentials: Arc<Credentials>,
        limits: Limits,
    ) -> Result<Self, BoxError> {
        let url = dialer.url();
        let host = HeaderValue::from_str(url.authority().map_or("", |a| a.as_str()))?;
        let prefix = url.path().trim_end_matches('/').to_owned();
        Ok(Self { inner: Inner::new(dialer, credentials, limits, host, prefix) })
    }
}

impl Pool {
    /// Other connections to the same server with the same credentials, on which nothing is sent while `fence` is closed either.
    pub(crate) fn under(&self, fence: &Fence) -> Self {
        let Inner { dialer, credentials, limits, host, prefix, .. } = &*self.inner;
        let dialer = Arc::new(dialer.under(fence));
        Self { inner: Inner::new(dialer, credentials.clone(), *limits, host.clone(), prefix.clone()) }
    }
}

impl Transport for Pool {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.send(request).await })
    }

    fn host(&self) -> &str {
        self.inner.host.to_str().unwrap_or_default()
    }
}

impl Inner {
    fn new(
        dialer: Arc<Dialer>,
        credentials: Arc<Credentials>,
        limits: Limits,
        host: HeaderValue,
        prefix: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            dialer,
            credentials,
            limits,
            host,
            prefix,
            open: Arc::default(),
            speaks_http1: AtomicBool::new(false),
            http1_slots: Arc::new(Semaphore::new(limits.http1)),
        })
    }

    async fn send(
        self: Arc<Self>,
        mut request: http::Request<Bytes>,
    ) -> Result<http::Response<Body>, TransportError> {
        let uri = self.absolute(request.uri()).map_err(TransportError::NotSent)?;
        *request.uri_mut() = uri;
        let mut renewed = false;
        let mut resends = 0u32;
        loop {
            let snapshot = self.credentials.current().await?;
            let mut signed = request.clone();
            snapshot.sign(signed.headers_mut());
            let mut lease = self.lease(&snapshot).await.map_err(TransportError::NotSent)?;
            let response = match lease.send(signed, &self.host).await {
                Ok(response) => response,
                Err(TransportError::NotSent(error)) if resends < RESENDS => {
                    tokio::time::sleep(RESEND_AFTER * resends).await;
                    resends += 1;
                    tracing::debug!(
                        error = &*error as &dyn std::error::Error,
                        "sending again on another connection"
                    );
                    continue;
                }
                Err(error) => return Err(error),
            };
            if response.status() == StatusCode::UNAUTHORIZED && !renewed {
                renewed = true;
                if Box::pin(self.credentials.refused(&snapshot)).await {
                    continue;
                }
            }
            let pool = self.clone();
            return Ok(response.map(|inner| Answer { inner, lease: Some(lease), pool }.boxed_unsync()));
        }
    }

    /// The request's path on this server.
    fn absolute(&self, uri: &Uri) -> Result<Uri, BoxError> {
        let path = match uri.path_and_query() {
            Some(path) if self.prefix.is_empty() => path.clone(),
            Some(path) => PathAndQuery::try_from(format!("{}{path}", self.prefix))?,
            None => PathAndQuery::from_static("/"),
        };
        let mut parts = self.dialer.url().clone().into_parts();
        parts.path_and_query = Some(path);
        Ok(Uri::from_parts(parts)?)
    }

    async fn lease(self: &Arc<Self>, credentials: &Snapshot) -> Result<Lease, BoxError> {
        let reused = self.reuse(&mut self.open.lock(), credentials.tls_generation);
        match reused {
            Some(lease) => Ok(lease),
            // Boxed, so that the future of the many requests that need no dialling is small.
            None => Box::pin(self.dial(credentials)).await,
        }
    }

    async fn dial(self: &Arc<Self>, credentials: &Snapshot) -> Result<Lease, BoxError> {
        loop {
            if self.speaks_http1.load(Ordering::Relaxed) {
                return self.dial_http1(credentials).await;
            }
            let (dial, is_ours) = {
                let mut open = self.open.lock();
                if let Some(lease) = self.reuse(&mut open, credentials.tls_generation) {
                    return Ok(lease);
                }
                match open.dialling.as_ref().filter(|dial| dial.peek().is_none()) {
                    Some(dial) => (dial.clone(), false),
                    None => (open.dialling.insert(self.start_dial(credentials)).clone(), true),
                }
            };
            match dial.await {
                // Also if its credentials have been replaced since, so that each round ends for at least one request.
                Ok(Some(shared)) if is_ours => return Ok(Lease::Stream(Stream::open(&shared))),
                Ok(_) => {}
                Err(error) => return Err(error.to_string().into()),
            }
        }
    }

    fn start_dial(self: &Arc<Self>, credentials: &Snapshot) -> Dial {
        let (pool, tls, tls_generation) = (self.clone(), credentials.tls.clone(), credentials.tls_generation);
        let dialled = tokio::spawn(async move {
            let link = pool.dialer.dial(tls).await;
            let mut open = pool.open.lock();
            open.dialling = None;
            match link {
                Ok(link) => Ok(match pool.admit(&mut open, link, tls_generation) {
                    Admitted::Shared(shared) => Some(shared),
                    Admitted::Single(connection) => {
                        open.idle.push(connection);
                        None
                    }
                }),
                Err(error) => Err(Chain(&*error).to_string().into()),
            }
        });
        dialled.map(|dialled| dialled.unwrap_or_else(|error| Err(error.to_string().into()))).boxed().shared()
    }

    /// HTTP/1.1 connections are not shared: waits for a free slot, and opens a connection only then.
    async fn dial_http1(self: &Arc<Self>, credentials: &Snapshot) -> Result<Lease, BoxError> {
        let slot = self.http1_slots.clone().acquire_owned().await?;
        let (tls, tls_generation) = (credentials.tls.clone(), credentials.tls_generation);
        let idle = self.open.lock().idle(tls_generation);
        if let Some(connection) = idle {
            return Ok(self.whole(connection, slot));
        }
        let (pool, (done, dialled)) = (self.clone(), oneshot::channel());
        tokio::spawn(async move {
            let link = pool.dialer.dial(tls).await;
            let admitted = link.map(|link| (pool.admit(&mut pool.open.lock(), link, tls_generation), slot));
            // The request was given up meanwhile: the next one takes the connection.
            if let Err(Ok((Admitted::Single(connection), _slot))) = done.send(admitted) {
                pool.keep(connection);
            }
        });
        Ok(match dialled.await?? {
            (Admitted::Shared(shared), _) => Lease::Stream(Stream::open(&shared)),
            (Admitted::Single(connection), slot) => self.whole(connection, slot),
        })
    }

    /// A connection with a free stream. Connections with replaced credentials, and those on which the server does not respond,
    /// get no new streams: the server may respond on another connection, or at another address.
    fn reuse(&self, open: &mut Open, tls_generation: u64) -> Option<Lease> {
        // A request that waited may have older credentials than a connection here.
        open.shared.retain(|c| !c.connection.is_closed() && c.tls_generation >= tls_generation);
        let own = || open.shared.iter().filter(|c| c.tls_generation == tls_generation);
        let trusted = || own().filter(|c| !c.connection.pulse().is_suspect());
        if let Some(least) = trusted().min_by_key(|c| c.streams.load(Ordering::Relaxed)) {
            let most = self.limits.streams.min(least.connection.max_streams());
            let has_room = least.streams.load(Ordering::Relaxed) < most;
            // Beyond the last connection, streams queue up on the existing ones.
            if has_room || trusted().count() >= self.limits.connections {
                return Some(Lease::Stream(Stream::open(least)));
            }
        }
        if own().count() >= MAX_SUSPECTS + self.limits.connections {
            let least = own().min_by_key(|c| c.streams.load(Ordering::Relaxed));
            return least.map(|least| Lease::Stream(Stream::open(least)));
        }
        let slot = self.http1_slots.clone().try_acquire_owned().ok()?;
        Some(self.whole(open.idle(tls_generation)?, slot))
    }

    fn whole(&self, connection: Http1, slot: OwnedSemaphorePermit) -> Lease {
        Lease::Whole(Single { connection, _slot: slot, wait: Wait { open: self.open.clone(), since: None } })
    }

    fn admit(&self, open: &mut Open, link: Link, tls_generation: u64) -> Admitted {
        self.speaks_http1.store(matches!(link, Link::Http1(_)), Ordering::Relaxed);
        match link {
            Link::Http2(connection) => {
                let streams = AtomicUsize::new(0);
                let shared = Arc::new(SharedConnection { connection, streams, tls_generation });
                open.shared.push(shared.clone());
                Admitted::Shared(shared)
            }
            Link::Http1(sender) => Admitted::Single(Http1 { sender, tls_generation }),
        }
    }

    fn give_back(&self, Single { connection, .. }: Single) {
        self.keep(connection);
    }

    fn keep(&self, connection: Http1) {
        let mut open = self.open.lock();
        if open.idle.len() < MAX_IDLE && !connection.sender.is_closed() {
            open.idle.push(connection);
        }
    }
}

impl Open {
    /// Takes an idle connection that can be used.
    fn idle(&mut self, tls_generation: u64) -> Option<Http1> {
        // A request that waited for a slot may have older credentials than a connection here.
        self.idle.retain(|c| !c.sender.is_closed() && c.tls_generation >= tls_generation);
        let is_ready = |c: &Http1| c.sender.is_ready() && c.tls_generation == tls_generation;
        let ready = self.idle.iter().position(is_ready)?;
        Some(self.idle.swap_remove(ready))
    }
}

impl Lease {
    async fn send(
        &mut self,
        request: http::Request<Bytes>,
        host: &HeaderValue,
    ) -> Result<http::Response<Received>, TransportError> {
        match self {
            Self::Stream(stream) => {
                let answer = stream.shared.connection.send(request).await;
                stream.is_over = answer.is_err();
                answer.map(|answer| answer.map(Received::Http2))
            }
            Self::Whole(single) => single.send(request, host).await.map(|answer| answer.map(Received::Http1)),
        }
    }
}

impl Single {
    async fn send(
        &mut self,
        request: http::Request<Bytes>,
        host: &HeaderValue,
    ) -> Result<http::Response<Incoming>, TransportError> {
        let mut request = request.map(Full::new);
        // HTTP/1.1 has the server in a header and not in the request line.
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        request.headers_mut().insert(header::HOST, host.clone());
        let sender = &mut self.connection.sender;
        sender.ready().await.map_err(|e| TransportError::NotSent(e.into()))?;
        let sent = Instant::now();
        self.wait.since = Some(sent);
        let answer = sender.try_send_request(request).await;
        self.wait.since = None;
        answer.map_err(|mut failed| {
            let unsent = failed.take_message().is_some();
            let error = failed.into_error();
            if unsent {
                return TransportError::NotSent(error.into());
            }
            let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
            TransportError::no_response(sent, source.is_some_and(is_silence), error.into())
        })
    }
}

/// A response of either protocol.
enum Received {
    Http1(Incoming),
    Http2(http2::Received),
}

/// The body of a response, which holds its connection until it has been read.
struct Answer {
    inner: Received,
    lease: Option<Lease>,
    pool: Arc<Inner>,
}

impl Answer {
    fn end(&mut self) -> Option<Lease> {
        if let Some(Lease::Stream(stream)) = &mut self.lease {
            stream.is_over = true;
        }
        self.lease.take()
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = match &mut self.inner {
            Received::Http1(body) => Pin::new(body).poll_frame(cx).map_err(BoxError::from),
            Received::Http2(body) => Pin::new(body).poll_frame(cx).map_err(BoxError::from),
        };
        let over = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.is_end_stream(),
            Poll::Ready(Some(Err(_))) => {
                self.end();
                false
            }
            Poll::Pending => false,
        };
        if over && let Some(Lease::Whole(single)) = self.end() {
            self.pool.give_back(single);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Received::Http1(body) => body.is_end_stream(),
            Received::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Received::Http1(body) => body.size_hint(),
            Received::Http2(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
#[path = "tests/pool.rs"]
mod tests;
