//! Transports to the server in this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flyball_apiserver::ApiServer;
use flyball_client::{Body, ServiceTransport, Transport, TransportError};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use http::HeaderValue;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::client::{ApiClient, NoAnswer};

/// Adds a bearer token to every request.
struct WithToken<T> {
    inner: T,
    header: Option<HeaderValue>,
}

impl<T> WithToken<T> {
    fn new(inner: T, token: &str) -> Self {
        Self { inner, header: HeaderValue::try_from(format!("Bearer {token}")).ok() }
    }
}

impl<T: Transport> Transport for WithToken<T> {
    fn send(
        &self,
        mut request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        if let Some(header) = &self.header {
            request.headers_mut().insert(http::header::AUTHORIZATION, header.clone());
        }
        self.inner.send(request)
    }
}

/// A transport to the server with the given token, or with the token of each request.
pub(super) fn to(server: &ApiServer, token: Option<&str>) -> Arc<dyn Transport> {
    let bare = ServiceTransport::new(server.clone());
    match token {
        Some(token) => Arc::new(WithToken::new(bare, token)),
        None => Arc::new(bare),
    }
}

/// Delays writes, so that a controller can see the first of two before the second is sent. Requests in flight when the
/// server is restored get no response.
pub(super) struct DelayedWrites {
    inner: Arc<dyn Transport>,
    answers: Arc<Answers>,
}

/// The delay of a controller's write.
const WRITE: Duration = Duration::from_millis(2);

impl DelayedWrites {
    pub(super) fn new(inner: Arc<dyn Transport>, answers: Arc<Answers>) -> Self {
        Self { inner, answers }
    }
}

impl Transport for DelayedWrites {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (inner, answers) = (Arc::clone(&self.inner), Arc::clone(&self.answers));
        Box::pin(async move {
            if answers.is_down() {
                return Err(TransportError::NotSent("a fault: the server is down".into()));
            }
            if request.method() != http::Method::GET {
                let restores = answers.restores();
                tokio::time::sleep(WRITE).await;
                if answers.restores() != restores {
                    return Err(TransportError::Lost("a fault: the server was restored".into()));
                }
                let answer = inner.send(request).await;
                answers.wrote.notify_one();
                return answer;
            }
            inner.send(request).await
        })
    }
}

/// Requests take virtual time. Otherwise everything that the simulated kubelets do in one pass would happen at the same
/// instant, and controllers could not react to one pod before the next.
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// A client over a transport. Repeated reads between two writes are answered from memory: scenarios read the cluster ten
/// times in a second, and mostly nothing has changed.
pub(super) struct InProcess {
    transport: Arc<dyn Transport>,
    server: ApiServer,
    answers: Arc<Answers>,
}

/// Responses to reads by path, as of one state of the server; and what is known of restores.
#[derive(Default)]
pub(super) struct Answers {
    restores: AtomicU64,
    /// When the server was restored last, and how long it was down.
    restored: Mutex<Option<(Instant, Duration)>>,
    /// The newest version that any test client has read.
    seen: AtomicU64,
    known: Mutex<(u64, HashMap<String, http::Response<Bytes>>)>,
    /// Notified after every write of a controller, and after a restore.
    pub(super) wrote: Notify,
}

/// All versions of a simulation are below this.
const VERSIONS: u64 = 1 << 40;

impl Answers {
    /// Records a restore, after which the server is down for a while.
    pub(super) fn restored(&self, down: Duration) {
        self.restores.fetch_add(1, Ordering::Relaxed);
        self.restored.lock().replace((Instant::now(), down));
        self.wrote.notify_one();
    }

    /// The number of restores so far.
    pub(super) fn restores(&self) -> u64 {
        self.restores.load(Ordering::Relaxed)
    }

    fn is_down(&self) -> bool {
        self.down_until().is_some()
    }

    /// Waits until the server is up.
    pub(super) async fn up(&self) {
        while let Some(end) = self.down_until() {
            tokio::time::sleep_until(end).await;
        }
    }

    fn down_until(&self) -> Option<Instant> {
        let end = self.restored.lock().map(|(at, down)| at + down);
        end.filter(|end| Instant::now() < *end)
    }

    /// The newest version that any test client has read.
    pub(super) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    fn state(&self, version: u64) -> u64 {
        self.seen.store(version, Ordering::Relaxed);
        self.restores() * VERSIONS + version
    }

    fn get(&self, state: u64, path: &str) -> Option<http::Response<Bytes>> {
        let known = self.known.lock();
        known.1.get(path).filter(|_| known.0 == state).cloned()
    }

    fn put(&self, state: u64, path: String, answer: &http::Response<Bytes>) {
        let mut known = self.known.lock();
        if known.0 != state {
            known.1.clear();
            known.0 = state;
        }
        known.1.insert(path, answer.clone());
    }
}

impl InProcess {
    pub(super) fn new(transport: Arc<dyn Transport>, server: ApiServer, answers: Arc<Answers>) -> Self {
        Self { transport, server, answers }
    }
}

impl ApiClient for InProcess {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, NoAnswer>> {
        Box::pin(async move {
            tokio::time::sleep(ROUND_TRIP).await;
            let read = (request.method() == http::Method::GET).then(|| request.uri().to_string());
            self.answers.up().await;
            let state = self.state().unwrap_or_default();
            if let Some(known) = read.as_ref().and_then(|path| self.answers.get(state, path)) {
                return Ok(known);
            }
            let response = self.transport.send(request).await.map_err(|e| NoAnswer(Box::new(e)))?;
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.map_err(NoAnswer)?.to_bytes();
            let answer = http::Response::from_parts(head, bytes);
            let is_same = self.state() == Some(state);
            if let Some(path) = read
                && is_same
            {
                self.answers.put(state, path, &answer);
            }
            Ok(answer)
        })
    }

    fn state(&self) -> Option<u64> {
        Some(self.answers.state(self.server.store().version()))
    }

    fn watch(&self, path: &str) -> BoxFuture<'_, Result<BoxStream<'static, Value>, NoAnswer>> {
        let request = http::Request::get(path).body(Bytes::new());
        Box::pin(async move {
            let request = request.map_err(|e| NoAnswer(Box::new(e)))?;
            let response = self.transport.send(request).await.map_err(|e| NoAnswer(Box::new(e)))?;
            Ok(events(response.into_body()).boxed())
        })
    }
}

/// The lines of a body as JSON.
fn events(body: Body) -> impl futures::Stream<Item = Value> {
    stream::unfold((body, BytesMut::new()), |(mut body, mut unread)| async move {
        loop {
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = unread.split_to(end + 1);
                let event = serde_json::from_slice(&line).ok()?;
                return Some((event, (body, unread)));
            }
            let frame = body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                unread.extend_from_slice(&data);
            }
        }
    })
}
