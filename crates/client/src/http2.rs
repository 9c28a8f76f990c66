//! One HTTP/2 connection with many concurrent requests, closed when the server no longer responds.
//!
//! Directly on `h2`: a request is written to its stream by its own task, and its response wakes only that task, where a
//! general client passes both through further tasks and channels.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use h2::client::{self, SendRequest};
use h2::{Reason, RecvStream};
use http::header::CONTENT_LENGTH;
use http_body::Frame;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::gather::{Driver, Gathered};
use crate::pulse::{CountedIo, Pulse};
use crate::transport::{BoxError, TransportError, is_silence};

/// Lists of large clusters stream faster with windows larger than the bandwidth-delay product.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// How long the first requests wait for the server to say how many streams it allows.
const SETTINGS_WITHIN: Duration = Duration::from_secs(2);
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
        let io = Gathered::new(CountedIo::new(io, pulse.clone()));
        let held = io.held();
        let (sender, mut connection) = client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .handshake(io)
            .await?;
        let pings = connection.ping_pong();
        let driver = tokio::spawn(Driver::new(connection, held).map(|ended| {
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
            let (answered, answers) = oneshot::channel();
            tokio::spawn(async move {
                pulse.stops(pings, answered).await;
                if !driver.is_finished() {
                    pulse.has_stopped();
                    tracing::warn!("the API server does not respond, closing the connection");
                }
                // This ends all its requests.
                driver.abort();
            });
            // A response to the first ping comes after the server's settings.
            let _ = tokio::time::timeout(SETTINGS_WITHIN, answers).await;
        }
        Ok(Self { sender, driver, pulse, spent: AtomicBool::new(false) })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.spent.load(Ordering::Relaxed) || self.driver.is_finished()
    }

    /// How many streams the server allows at once. Further ones wait until others end.
    pub(crate) fn max_streams(&self) -> usize {
        self.sender.current_max_send_streams()
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
        let (mut sender, sent) = (self.sender.clone(), Instant::now());
        let answer = match sender.send_request(head, body.is_empty()) {
            Ok((answer, mut stream)) => {
                if !body.is_empty() {
                    stream.send_data(body, true).map_err(|error| self.failed(error, sent))?;
                }
                answer
            }
            Err(error) => {
                self.spent.store(true, Ordering::Relaxed);
                return Err(TransportError::NotSent(error.into()));
            }
        };
        let answer = answer.await.map_err(|error| self.failed(error, sent))?;
        Ok(answer.map(Received))
    }

    fn failed(&self, error: h2::Error, sent: Instant) -> TransportError {
        if error.is_go_away() || error.is_io() {
            self.spent.store(true, Ordering::Relaxed);
        }
        if was_refused(&error) {
            TransportError::NotSent(error.into())
        } else {
            let is_silent = self.pulse.is_over() || error.get_io().is_some_and(is_silence);
            TransportError::no_response(sent, is_silent, error.into())
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
