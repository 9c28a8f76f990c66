//! One browser that looks: first everything that there is, then the batches.
//!
//! It is read as fast as the browser reads. One that lags too far behind, or has been there for long, gets to know that and
//! the stream ends; it asks for a new one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::table::{AllRows, Changes};
use super::{Feed, event};

/// Rows in one message of the picture.
const PIECE: usize = 500;

pub(crate) struct Viewer {
    place: Place,
    step: Step,
    batches: Receiver<Bytes>,
    ends: Instant,
}

/// What is sent next.
enum Step {
    Greeting,
    /// The tables that are left, the first of which may be under way.
    Tables(VecDeque<&'static str>),
    Batches,
    End,
}

/// What a viewer and the feed share.
#[derive(Default)]
pub(super) struct Seat {
    given_up: AtomicBool,
    /// The rest of a table that is being sent.
    rows: Mutex<Option<AllRows>>,
}

impl Seat {
    /// Others have come: the stream ends. What it holds is dropped now, since it may never be read again.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.rows.lock().take();
    }

    fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}

/// The place of a viewer; dropping it gives it up.
struct Place {
    feed: Arc<Feed>,
    seat: Arc<Seat>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.feed.leave(&self.seat);
    }
}

impl Viewer {
    pub(super) fn new(feed: Arc<Feed>, seat: Arc<Seat>, batches: Receiver<Bytes>) -> Self {
        let ends = Instant::now() + feed.sources.stream_lasts;
        Self { place: Place { feed, seat }, step: Step::Greeting, batches, ends }
    }

    /// The messages, until the stream ends.
    pub(crate) fn messages(self) -> impl Stream<Item = Bytes> + Send {
        unfold(self, async |mut viewer| viewer.next().await.map(|message| (message, viewer)))
    }

    async fn next(&mut self) -> Option<Bytes> {
        let Place { feed, seat } = &self.place;
        if seat.is_given_up() && !matches!(self.step, Step::End) {
            return Some(self.end("there are too many viewers"));
        }
        match &mut self.step {
            Step::Greeting => {
                let greeting = feed.greeting();
                self.step = Step::Tables(feed.kinds());
                Some(greeting)
            }
            Step::Tables(left) => {
                while let Some(kind) = left.front() {
                    if let Some(piece) = piece(feed, seat, kind) {
                        return Some(piece);
                    }
                    left.pop_front();
                }
                let last = feed.last_words();
                self.step = Step::Batches;
                Some(last)
            }
            Step::Batches if Instant::now() >= self.ends => Some(self.end("renew")),
            Step::Batches => match self.batches.recv().await {
                Ok(batch) => Some(batch),
                Err(RecvError::Lagged(_)) => Some(self.end("too slow")),
                Err(RecvError::Closed) => None,
            },
            Step::End => None,
        }
    }

    fn end(&mut self, why: &str) -> Bytes {
        self.step = Step::End;
        event(&json!({ "end": why }))
    }
}

/// The next rows of a table; `None` after the last.
fn piece(feed: &Feed, seat: &Seat, kind: &'static str) -> Option<Bytes> {
    let rows = seat.rows.lock().take();
    let mut rows = rows.or_else(|| feed.rows(kind))?;
    let piece: Vec<_> = rows.by_ref().take(PIECE).collect();
    if piece.is_empty() {
        return None;
    }
    *seat.rows.lock() = Some(rows);
    // Or it would keep them for good.
    if seat.is_given_up() {
        seat.give_up();
    }
    Some(event(&Changes { rows: BTreeMap::from([(kind, piece)]), ..Changes::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its stream may never be read again, so nothing else would drop them.
    #[test]
    fn a_viewer_that_has_to_go_holds_no_rows() {
        let (seat, objects) = (Seat::default(), Arc::new(()));
        let held = objects.clone();
        *seat.rows.lock() = Some(Box::new(std::iter::from_fn(move || {
            let _held = &held;
            None
        })));
        assert_eq!(Arc::strong_count(&objects), 2);
        seat.give_up();
        assert_eq!(Arc::strong_count(&objects), 1);
    }
}
