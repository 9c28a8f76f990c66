//! The interface under every client: sends one HTTP request to an API server and returns the response, or whether a request
//! that failed may have been carried out.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::{Service, ServiceExt};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response, read in chunks.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Sends requests to one API server with one identity.
///
/// Request URIs are paths with a query. The transport adds the server and the credentials, and nothing else.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request; resolves with the head of the response.
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>>;

    /// The server's `host:port`, for metrics.
    fn host(&self) -> &str {
        ""
    }
}

impl<T: Transport + ?Sized> Transport for Arc<T> {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        (**self).send(request)
    }

    fn host(&self) -> &str {
        (**self).host()
    }
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The request did not reach the server: a retry is safe.
    #[error("the request could not be sent")]
    NotSent(#[source] BoxError),
    /// The request was sent and its response was lost: the server may have carried it out.
    #[error("the connection was lost before the response arrived")]
    Lost(#[source] BoxError),
    /// The same, but the server fell silent: it may not know that the connection has ended, and may still carry the request out.
    #[error("the connection fell silent before the response arrived")]
    Silent {
        /// When the request was handed to the connection.
        sent: Instant,
        #[source]
        source: BoxError,
    },
    /// There are no credentials to send the request with.
    #[error("{0}")]
    Credentials(String),
}

impl TransportError {
    /// A request got no response because of this error of its connection.
    pub(crate) fn no_response(sent: Instant, has_fallen_silent: bool, source: BoxError) -> Self {
        if has_fallen_silent { Self::Silent { sent, source } } else { Self::Lost(source) }
    }
}

/// Whether an error of the kernel says that the peer does not respond, as opposed to that it has closed the connection.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown)
}

/// Makes a tower service, such as the embedded API server, a [`Transport`].
pub struct ServiceTransport<S> {
    service: S,
}

impl<S> ServiceTransport<S> {
    /// Wraps `service`, which is cloned for each request.
    pub fn new(service: S) -> Self {
        Self { service }
    }
}

impl<S> fmt::Debug for ServiceTransport<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceTransport").finish_non_exhaustive()
    }
}

impl<S, B> Transport for ServiceTransport<S>
where
    S: Service<http::Request<Full<Bytes>>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let service = self.service.clone();
        Box::pin(async move {
            // A service that fails has received the request, so it may have carried it out.
            let response =
                service.oneshot(request.map(Full::new)).await.map_err(|e| TransportError::Lost(e.into()))?;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }

    fn host(&self) -> &str {
        "embedded"
    }
}
