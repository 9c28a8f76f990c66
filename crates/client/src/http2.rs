//! One HTTP/2 connection with many concurrent requests, closed when the server no longer responds.
//!
//! Directly on `h2`: a request is written to its stream by its own task, and its response wakes only that task, where a
//! general client passes both through further tasks and channels.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::FutureExt;
use h2::client::{self, SendRequest};
use h2::{Reason, RecvStream};
use http::header::CONTENT_LENGTH;
use http_body::Frame;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use crate::pulse::{Heard, Pulse};
use crate::transport::{BoxError, TransportError};

/// Lists of large clusters stream faster with windows larger than the bandwidth-delay product.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// The limit for response headers.
const MAX_HEADERS: u32 = 64 * 1024;

/// An open connection. Dropping it does not end its streams.
pub(crate) struct Connection {
    sender: SendRequest<Bytes>,
    driver: AbortHandle,
    pulse: Arc<Pulse>,
    /// It accepts no further requests: the server has sent GOAWAY, or it failed.
    spent: AtomicBool,
}

impl Connection {
    pub(crate) async fn open<I>(io: I) -> Result<Self, BoxError>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let pulse = Arc::new(Pulse::default());
        let (sender, mut connection) = client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .handshake(Heard::new(io, pulse.clone()))
            .await?;
        let pings = connection.ping_pong();
        let driver = tokio::spawn(connection.map(|ended| {
            // Each request has its own error, so this is only a debug line.
            if let Err(error) = ended {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "connection to the API server ended"
                );
            }
        }))
        .abort_handle();
        if let Some(pings) = pings {
            let (pulse, driver) = (pulse.clone(), driver.clone());
            tokio::spawn(async move {
                pulse.stops(pings).await;
                if !driver.is_finished() {
                    tracing::warn!("the API server does not respond, closing the connection");
                }
                // This ends all its requests.
                driver.abort();
            });
        }
        Ok(Self { sender, driver, pulse, spent: AtomicBool::new(false) })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.spent.load(Ordering::Relaxed) || self.driver.is_finished()
    }

    /// Whether the server still responds.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Sends a request; resolves with the head of the response.
    pub(crate) async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Received>, TransportError> {
        let (head, body) = request.into_parts();
        let mut head = http::Request::from_parts(head, ());
        if !body.is_empty() {
            head.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        }
        let mut sender = self.sender.clone();
        let answer = match sender.send_request(head, body.is_empty()) {
            Ok((answer, mut stream)) => {
                if !body.is_empty() {
                    stream.send_data(body, true).map_err(|error| self.failed(error))?;
                }
                answer
            }
            Err(error) => {
                self.spent.store(true, Ordering::Relaxed);
                return Err(TransportError::NotSent(error.into()));
            }
        };
        let answer = answer.await.map_err(|error| self.failed(error))?;
        Ok(answer.map(Received))
    }

    fn failed(&self, error: h2::Error) -> TransportError {
        if error.is_go_away() || error.is_io() {
            self.spent.store(true, Ordering::Relaxed);
        }
        if was_refused(&error) {
            TransportError::NotSent(error.into())
        } else {
            TransportError::Lost(error.into())
        }
    }
}

/// Whether a request was certainly not processed: HTTP/2 refuses its stream, or GOAWAY names an earlier stream as the last
/// one.
fn was_refused(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM))
}

pub(crate) struct Received(RecvStream);

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.0.poll_data(cx)) else { return Poll::Ready(None) };
        Poll::Ready(Some(data.and_then(|data| {
            // Consumed data no longer counts against the windows.
            self.0.flow_control().release_capacity(data.len())?;
            Ok(Frame::data(data))
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
