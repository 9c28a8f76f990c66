//! Whether the other side of a connection is still there. A peer that vanishes without a word keeps the connection open
//! for as long as TCP is willing to wait, and everything that is sent on it is lost.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// A connection on which nothing was heard for so long is asked for a sign of life. Upstream asks after 30 s
/// (`HTTP2_READ_IDLE_TIMEOUT_SECONDS`), which with the time for the answer is most of a node's grace period.
const QUIET: Duration = Duration::from_secs(5);
/// Upstream's `HTTP2_PING_TIMEOUT_SECONDS`: without an answer for so long, the peer is gone.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Answers that are on their way may come before that to a ping. After so long they no longer count.
const LONGEST_PING: Duration = Duration::from_secs(60);
/// Without an answer for so long, new requests take another connection.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// The signs of life of one connection.
#[derive(Default)]
pub(crate) struct Pulse {
    /// How often something was heard.
    heard: AtomicUsize,
    /// Somebody waited for an answer in vain.
    doubted: Notify,
    suspect: AtomicBool,
}

/// A request under way, as its connection's pulse sees it.
pub(crate) struct Vigil {
    since: Instant,
    heard: usize,
}

impl Pulse {
    pub(crate) fn vigil(&self) -> Vigil {
        Vigil { since: Instant::now(), heard: self.heard.load(Ordering::Relaxed) }
    }

    /// A request was given up before its answer was complete. If not a byte came all the while, it is not only slow.
    pub(crate) fn given_up(&self, vigil: &Vigil) {
        if vigil.since.elapsed() < SUSPECT_AFTER {
            return;
        }
        if self.heard.load(Ordering::Relaxed) == vigil.heard {
            self.suspect.store(true, Ordering::Relaxed);
        }
        self.doubted.notify_one();
    }

    /// Whether new requests had better take another connection.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// Returns when the peer gives no sign of life any more.
    pub(crate) async fn stops(&self, mut pings: PingPong) {
        let mut heard = self.heard.load(Ordering::Relaxed);
        loop {
            let doubted = timeout(QUIET, self.doubted.notified()).await.is_ok();
            let before = std::mem::replace(&mut heard, self.heard.load(Ordering::Relaxed));
            if !doubted && heard != before {
                continue;
            }
            if !self.answers(&mut pings).await {
                return;
            }
            self.suspect.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a ping is answered in time. A pong may queue behind much else on a slow line, so that a peer which says
    /// other things gets longer.
    async fn answers(&self, pings: &mut PingPong) -> bool {
        if pings.send_ping(Ping::opaque()).is_err() {
            return false;
        }
        let asked = Instant::now();
        let mut pong = std::pin::pin!(std::future::poll_fn(|cx| pings.poll_pong(cx)));
        if let Ok(pong) = timeout(SUSPECT_AFTER, &mut pong).await {
            return pong.is_ok();
        }
        self.suspect.store(true, Ordering::Relaxed);
        loop {
            let heard = self.heard.load(Ordering::Relaxed);
            if let Ok(pong) = timeout(PING_TIMEOUT - SUSPECT_AFTER, &mut pong).await {
                return pong.is_ok();
            }
            if self.heard.load(Ordering::Relaxed) == heard || asked.elapsed() > LONGEST_PING {
                return false;
            }
        }
    }
}

/// A connection that keeps count of what it hears.
pub(crate) struct Heard<I> {
    io: I,
    pulse: Arc<Pulse>,
}

impl<I> Heard<I> {
    pub(crate) fn new(io: I, pulse: Arc<Pulse>) -> Self {
        Self { io, pulse }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Heard<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.pulse.heard.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Heard<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
#[path = "tests/pulse.rs"]
mod tests;
