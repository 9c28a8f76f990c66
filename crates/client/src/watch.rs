//! A running watch: bytes in, events out.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use http_body::Body as _;

use crate::encoding::Encoding;
use crate::error::Error;
use crate::frames::{Frame, Frames, WatchEvent};
use crate::status::ApiStatus;
use crate::transport::Body;

/// The events of a watch. The stream ends after an error, or when the server ends the watch.
///
/// An ERROR event is an [`Error::Status`], so that [`Error::is_expired`] works for an expired version.
pub struct WatchStream {
    body: Body,
    frames: Frames,
    encoding: Encoding,
    what: Box<str>,
    limit: usize,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The body has ended; complete frames may be left.
    Draining,
    Over,
}

impl WatchStream {
    pub(crate) fn new(body: Body, encoding: Encoding, what: Box<str>, limit: usize) -> Self {
        Self { body, frames: Frames::new(encoding, limit), encoding, what, limit, state: State::Reading }
    }

    fn next_event(&mut self) -> Result<Option<WatchEvent>, Error> {
        let frame = match self.frames.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(None),
            Err(_) => return Err(Error::TooLarge { what: self.what.clone(), limit: self.limit }),
        };
        let undecodable = |source| Error::Decode { what: self.what.clone(), encoding: self.encoding, source };
        match frame.map_err(undecodable)? {
            Frame::Event(event) => Ok(Some(event)),
            Frame::Error(object) => {
                let status = ApiStatus::from_object(&object).map_err(undecodable)?;
                Err(Error::Status(Box::new(status)))
            }
        }
    }

    fn cut(&self, source: crate::transport::BoxError) -> Error {
        Error::Unreachable { what: self.what.clone(), source }
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.state == State::Over {
                return Poll::Ready(None);
            }
            match this.next_event() {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Err(error) => {
                    this.state = State::Over;
                    return Poll::Ready(Some(Err(error)));
                }
                Ok(None) if this.state == State::Draining => {
                    this.state = State::Over;
                    let rest = this.frames.has_rest();
                    return Poll::Ready(
                        rest.then(|| Err(this.cut("the watch ended in the middle of an event".into()))),
                    );
                }
                Ok(None) => {}
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        this.frames.push(data);
                    }
                }
                Some(Err(error)) => {
                    this.state = State::Over;
                    return Poll::Ready(Some(Err(this.cut(error))));
                }
                None => this.state = State::Draining,
            }
        }
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream")
            .field("what", &self.what)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
