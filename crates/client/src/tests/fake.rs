//! A scripted API server for tests: a tower service without sockets that responds, throttles, hangs or disconnects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::transport::{Body, BoxError, ServiceTransport, Transport, TransportError};

/// What the server does with one request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Reply(u16, String),
    RetryAfter(u16, u64),
    /// Takes the request and drops the connection.
    Lose,
    /// Takes the request and does not respond.
    Hang,
    /// The same, and the connection is given up after some seconds.
    Silence(u64),
    /// Responds after some seconds.
    After(u64, &'static str),
    /// Begins a response, in these chunks, and drops the connection.
    Cut(u16, Vec<&'static str>),
    /// A response in these chunks.
    Pieces(Vec<&'static str>),
    /// A response in protobuf, in these chunks.
    Protobuf(u16, Vec<Vec<u8>>),
}

pub(crate) fn ok(body: impl Into<String>) -> Act {
    Act::Reply(200, body.into())
}

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: http::Method,
    pub(crate) target: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Seen>>>);

impl Log {
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.0.lock().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.all().iter().map(|s| format!("{} {}", s.method, s.target)).collect()
    }
}

/// A server that reacts to each request and its number, counted from zero.
pub(crate) fn fake(react: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> (Arc<dyn Transport>, Log) {
    let log = Log::default();
    let (kept, react) = (log.clone(), Arc::new(react));
    let service = tower::service_fn(move |request: http::Request<Full<Bytes>>| {
        let (kept, react) = (kept.clone(), react.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            let seen =
                Seen { method: head.method, target: head.uri.to_string(), headers: head.headers, body };
            let number = {
                let mut log = kept.0.lock();
                log.push(seen.clone());
                log.len() - 1
            };
            let act = react(&seen, number);
            // Takes some time, so that requests overlap.
            tokio::task::yield_now().await;
            perform(act).await
        }
    });
    (Arc::new(MayFallSilent(ServiceTransport::new(service))), log)
}

/// The connection was given up since it fell silent.
#[derive(Debug, thiserror::Error)]
#[error("no pong")]
struct Silence;

struct MayFallSilent<T>(T);

impl<T: Transport> Transport for MayFallSilent<T> {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (sent, answer) = (Instant::now(), self.0.send(request));
        Box::pin(async move {
            answer.await.map_err(|error| match error {
                TransportError::Lost(source) if source.is::<Silence>() => {
                    TransportError::Silent { sent, source }
                }
                other => other,
            })
        })
    }

    fn host(&self) -> &str {
        self.0.host()
    }
}

type TestBody = UnsyncBoxBody<Bytes, BoxError>;

async fn perform(act: Act) -> Result<http::Response<TestBody>, BoxError> {
    let answer = |code: u16, body: TestBody| {
        let mut response = http::Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        response
    };
    let pieces = |pieces: Vec<&'static str>| {
        stream::iter(pieces).map(|p| Ok(Frame::data(Bytes::from_static(p.as_bytes()))) as Result<_, BoxError>)
    };
    Ok(match act {
        Act::Reply(code, body) => answer(code, Full::from(body).map_err(|e| match e {}).boxed_unsync()),
        Act::RetryAfter(code, seconds) => {
            let mut response = answer(code, Full::default().map_err(|e| match e {}).boxed_unsync());
            response.headers_mut().insert("retry-after", seconds.to_string().parse().unwrap());
            response
        }
        Act::Lose => return Err("connection reset".into()),
        Act::Hang => std::future::pending().await,
        Act::Silence(seconds) => {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            return Err(Box::new(Silence));
        }
        Act::After(seconds, body) => {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            answer(200, Full::from(body).map_err(|e| match e {}).boxed_unsync())
        }
        Act::Cut(code, parts) => {
            let cut = stream::iter([Err(BoxError::from("connection reset"))]);
            answer(code, StreamBody::new(pieces(parts).chain(cut)).boxed_unsync())
        }
        Act::Protobuf(code, parts) => {
            let parts =
                stream::iter(parts).map(|part| Ok(Frame::data(Bytes::from(part))) as Result<_, BoxError>);
            let mut response = answer(code, StreamBody::new(parts).boxed_unsync());
            let content_type = "application/vnd.kubernetes.protobuf;stream=watch".parse().unwrap();
            response.headers_mut().insert("content-type", content_type);
            response
        }
        Act::Pieces(parts) => answer(200, StreamBody::new(pieces(parts)).boxed_unsync()),
    })
}
