//! The way into a server in this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flyball_client::{Body, Transport, TransportError};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use http::HeaderValue;
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::door::{Door, NoAnswer};

/// Adds a bearer token to every request.
pub(super) struct WithToken<T> {
    inner: T,
    header: Option<HeaderValue>,
}

impl<T> WithToken<T> {
    pub(super) fn new(inner: T, token: &str) -> Self {
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

/// A way on which writes take time, so that a controller can see the first of two before the second is made.
pub(super) struct Distant {
    inner: Arc<dyn Transport>,
}

/// How long a controller's write is under way.
const WRITE: Duration = Duration::from_millis(2);

impl Distant {
    pub(super) fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner }
    }
}

impl Transport for Distant {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            if request.method() != http::Method::GET {
                tokio::time::sleep(WRITE).await;
            }
            inner.send(request).await
        })
    }
}

/// A request takes time in virtual time, too. Else all that the simulated kubelets do in one pass would happen in one
/// instant, and controllers could not react to one pod before the next.
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// A transport as a door.
pub(super) struct InProcess {
    transport: Arc<dyn Transport>,
}

impl InProcess {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport }
    }
}

impl Door for InProcess {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, NoAnswer>> {
        Box::pin(async move {
            tokio::time::sleep(ROUND_TRIP).await;
            let response = self.transport.send(request).await.map_err(|e| NoAnswer(Box::new(e)))?;
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.map_err(NoAnswer)?.to_bytes();
            Ok(http::Response::from_parts(head, bytes))
        })
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

/// The lines of a body as JSON, as they come.
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
