//! Faults of a watch: events are late or repeated, and it ends at any time. Events are never dropped while a watch lasts, as no
//! server does that.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flyball_client::{Body, BoxError, Transport, TransportError};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Faults;

pub(super) async fn send(
    faults: Arc<Faults>,
    inner: Arc<dyn Transport>,
    request: http::Request<Bytes>,
    lag: Duration,
) -> Result<http::Response<Body>, TransportError> {
    if faults.strikes(faults.mix.not_sent) {
        return Err(TransportError::NotSent("a fault: not sent".into()));
    }
    let (head, body) = inner.send(request).await?.into_parts();
    let (sender, arrivals) = mpsc::unbounded_channel();
    // Events are delayed independently: in a busy watch the delays do not add up.
    tokio::spawn(async move {
        let mut lines = Lines { body, unread: BytesMut::new() };
        loop {
            let line = tokio::select! {
                biased;
                line = lines.next() => line,
                () = sender.closed() => return,
            };
            let Some(line) = line else { return };
            if sender.send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    let restored = faults.restored.subscribe();
    let lines = Late { faults, lag, arrivals, again: None };
    let body = StreamBody::new(stream::unfold((lines, restored), |(mut lines, mut restored)| async move {
        let line = tokio::select! {
            biased;
            _ = restored.changed() => return None,
            line = lines.next() => line?,
        };
        Some((line.map(Frame::data), (lines, restored)))
    }));
    Ok(http::Response::from_parts(head, body.boxed_unsync()))
}

/// The lines of a watch, with faults.
struct Late {
    faults: Arc<Faults>,
    /// The largest delay of a line.
    lag: Duration,
    arrivals: mpsc::UnboundedReceiver<(Instant, Result<Bytes, BoxError>)>,
    /// A line to be delivered again.
    again: Option<Bytes>,
}

impl Late {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let faults = self.faults.clone();
        if faults.strikes(faults.mix.watch_cut) {
            return None;
        }
        if let Some(line) = self.again.take() {
            return Some(Ok(line));
        }
        let (arrived, line) = self.arrivals.recv().await?;
        let line = match line {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        tokio::time::sleep_until(arrived + faults.lag(self.lag)).await;
        if faults.strikes(faults.mix.watch_replay) {
            self.again = Some(line.clone());
        }
        Some(Ok(line))
    }
}

/// The lines of a watch as the server sends them.
struct Lines {
    body: Body,
    unread: BytesMut,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                return Some(Ok(self.unread.split_to(end + 1).freeze()));
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
