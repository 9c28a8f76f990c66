//! Keep-alive checks of a connection. If the peer vanishes without closing it, TCP keeps the connection open for a long time,
//! and everything that is sent on it is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

/// A ping is sent after this long without received data. Upstream waits 30 s (`HTTP2_READ_IDLE_TIMEOUT_SECONDS`), which
/// together with the ping timeout is most of a node's grace period.
pub(crate) const QUIET: Duration = Duration::from_secs(5);
/// Upstream's `HTTP2_PING_TIMEOUT_SECONDS`: the connection is closed if a ping gets no response for this long.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// A peer that sends other data has this long to respond to a ping.
const LONGEST_PING: Duration = Duration::from_secs(60);
/// If a ping gets no response for this long, new requests use another connection.
pub(crate) const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// The keep-alive state of one connection.
#[derive(Default)]
pub(crate) struct Pulse {
    /// The number of reads that returned data.
    received: AtomicUsize,
    /// Notified when a request was given up without a response.
    unanswered: Notify,
    suspect: AtomicBool,
    /// The peer no longer responds.
    over: AtomicBool,
}

/// The state of the connection when a request was sent.
pub(crate) struct SentMark {
    since: Instant,
    received: usize,
}

impl Pulse {
    pub(crate) fn mark(&self) -> SentMark {
        SentMark { since: Instant::now(), received: self.received.load(Ordering::Relaxed) }
    }

    /// To be called when a request was cancelled before its response was complete. If nothing was received meanwhile, the
    /// connection becomes suspect.
    pub(crate) fn given_up(&self, mark: &SentMark) {
        if mark.since.elapsed() < SUSPECT_AFTER {
            return;
        }
        if self.received.load(Ordering::Relaxed) == mark.received {
            self.suspect.store(true, Ordering::Relaxed);
        }
        self.unanswered.notify_one();
    }

    /// Whether new requests should use another connection.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// To be called when the peer no longer responds, before the connection is closed for that reason.
    pub(crate) fn has_stopped(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether the connection was closed because the peer no longer responded.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Completes when the peer no longer responds. Its first response is reported.
    pub(crate) async fn stops(&self, mut pings: PingPong, answered: oneshot::Sender<()>) {
        if !self.answers(&mut pings).await {
            return;
        }
        self.suspect.store(false, Ordering::Relaxed);
        // Fails if nobody waits for it any more.
        let _ = answered.send(());
        let mut received = self.received.load(Ordering::Relaxed);
        loop {
            let unanswered = timeout(QUIET, self.unanswered.notified()).await.is_ok();
            let before = std::mem::replace(&mut received, self.received.load(Ordering::Relaxed));
            if !unanswered && received != before {
                continue;
            }
            if !self.answers(&mut pings).await {
                return;
            }
            self.suspect.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a ping gets a response in time. On a slow connection the pong may queue behind other data, so a peer that sends
    /// data gets longer.
    async fn answers(&self, pings: &mut PingPong) -> bool {
        if pings.send_ping(Ping::opaque()).is_err() {
            return false;
        }
        let sent = Instant::now();
        let mut pong = std::pin::pin!(std::future::poll_fn(|cx| pings.poll_pong(cx)));
        if let Ok(pong) = timeout(SUSPECT_AFTER, &mut pong).await {
            return pong.is_ok();
        }
        self.suspect.store(true, Ordering::Relaxed);
        loop {
            let received = self.received.load(Ordering::Relaxed);
            if let Ok(pong) = timeout(PING_TIMEOUT - SUSPECT_AFTER, &mut pong).await {
                return pong.is_ok();
            }
            if self.received.load(Ordering::Relaxed) == received || sent.elapsed() > LONGEST_PING {
                return false;
            }
        }
    }
}

/// A connection that counts its reads.
pub(crate) struct CountedIo<I> {
    io: I,
    pulse: Arc<Pulse>,
}

impl<I> CountedIo<I> {
    pub(crate) fn new(io: I, pulse: Arc<Pulse>) -> Self {
        Self { io, pulse }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for CountedIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.pulse.received.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for CountedIo<I> {
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
}

#[cfg(test)]
#[path = "tests/pulse.rs"]
mod tests;
