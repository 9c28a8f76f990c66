//! What can go wrong with a watch: events come late or twice, and it ends at any time. Events are never left out
//! while a watch lasts, as no server does that.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use flyball_client::{Body, BoxError, Transport, TransportError};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::Faults;

pub(super) async fn send(
    faults: Arc<Faults>,
    inner: Arc<dyn Transport>,
    request: http::Request<Bytes>,
) -> Result<http::Response<Body>, TransportError> {
    if faults.strikes(faults.mix.not_sent) {
        return Err(TransportError::NotSent("a fault: not sent".into()));
    }
    let (head, body) = inner.send(request).await?.into_parts();
    let lines = Lines { faults, body, unread: BytesMut::new(), again: None };
    let body = StreamBody::new(stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((line.map(Frame::data), lines))
    }));
    Ok(http::Response::from_parts(head, body.boxed_unsync()))
}

/// The lines of a watch, with faults.
struct Lines {
    faults: Arc<Faults>,
    body: Body,
    unread: BytesMut,
    /// A line to be told once more.
    again: Option<Bytes>,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let faults = self.faults.clone();
        if faults.strikes(faults.mix.watch_cut) {
            return None;
        }
        if let Some(line) = self.again.take() {
            return Some(Ok(line));
        }
        let line = match self.line().await? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let lag = faults.lag();
        if !lag.is_zero() {
            tokio::time::sleep(lag).await;
        }
        if faults.strikes(faults.mix.watch_replay) {
            self.again = Some(line.clone());
        }
        Some(Ok(line))
    }

    async fn line(&mut self) -> Option<Result<Bytes, BoxError>> {
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
