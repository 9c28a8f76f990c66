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
    let content_type = head.headers.get(http::header::CONTENT_TYPE);
    let is_protobuf = content_type.is_some_and(|found| found.as_bytes().starts_with(PROTOBUF));
    let end = if is_protobuf { end_of_message } else { end_of_line };
    let (sender, arrivals) = mpsc::unbounded_channel();
    // Events are delayed independently: in a busy watch the delays do not add up.
    tokio::spawn(async move {
        let mut events = Events { body, unread: BytesMut::new(), end };
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = sender.closed() => return,
            };
            let Some(event) = event else { return };
            if sender.send((Instant::now(), event)).is_err() {
                return;
            }
        }
    });
    let restored = faults.restored.subscribe();
    let events = Late { faults, lag, arrivals, again: None };
    let body = StreamBody::new(stream::unfold((events, restored), |(mut events, mut restored)| async move {
        let event = tokio::select! {
            biased;
            _ = restored.changed() => return None,
            event = events.next() => event?,
        };
        Some((event.map(Frame::data), (events, restored)))
    }));
    Ok(http::Response::from_parts(head, body.boxed_unsync()))
}

/// The media types of protobuf begin with this.
const PROTOBUF: &[u8] = b"application/vnd.kubernetes.protobuf";
/// Before each event in protobuf comes its length, a big-endian number of so many bytes.
const LENGTH: usize = 4;

fn end_of_line(bytes: &[u8]) -> Option<usize> {
    Some(bytes.iter().position(|byte| *byte == b'\n')? + 1)
}

fn end_of_message(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*bytes.first_chunk::<LENGTH>()?);
    let end = LENGTH + usize::try_from(length).ok()?;
    (bytes.len() >= end).then_some(end)
}

/// The events of a watch, with faults.
struct Late {
    faults: Arc<Faults>,
    /// The largest delay of an event.
    lag: Duration,
    arrivals: mpsc::UnboundedReceiver<(Instant, Result<Bytes, BoxError>)>,
    /// An event to be delivered again.
    again: Option<Bytes>,
}

impl Late {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let faults = self.faults.clone();
        if faults.strikes(faults.mix.watch_cut) {
            return None;
        }
        if let Some(event) = self.again.take() {
            return Some(Ok(event));
        }
        let (arrived, event) = self.arrivals.recv().await?;
        let event = match event {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        tokio::time::sleep_until(arrived + faults.lag(self.lag)).await;
        if faults.strikes(faults.mix.watch_replay) {
            self.again = Some(event.clone());
        }
        Some(Ok(event))
    }
}

/// The events of a watch as the server sends them.
struct Events {
    body: Body,
    unread: BytesMut,
    /// Where the first event in the bytes ends, if it is complete.
    end: fn(&[u8]) -> Option<usize>,
}

impl Events {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(end) = (self.end)(&self.unread) {
                return Some(Ok(self.unread.split_to(end).freeze()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_split_as_their_encoding_asks() {
        assert_eq!(end_of_line(b"{}\n{}\n"), Some(3));
        assert_eq!(end_of_line(b"{}"), None);
        // A newline in a message does not end it.
        let message = [0, 0, 0, 3, b'\n', 1, b'\n', 0, 0];
        assert_eq!(end_of_message(&message), Some(7));
        assert_eq!(end_of_message(&message[..6]), None);
        assert_eq!(end_of_message(&message[..3]), None);
    }
}
