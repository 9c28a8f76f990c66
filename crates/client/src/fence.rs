//! The last check before a write is sent: a leader whose lease may have expired sends nothing.
//!
//! The clocks of other machines do not matter. The elector sets the time, on a clock of this machine, until which no other
//! process can have taken the lease, and every write compares the current time with it. The clock also runs while the
//! machine is suspended or the process is stopped. A process that continues too late therefore finds the fence closed, even
//! if its workers run before its elector.

use std::fmt;
use std::io;
use std::ops::Add;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Until when this process may write. Clones share it.
///
/// A fence is open until it is first set, so it does not affect a process without leader election.
#[derive(Clone)]
pub struct Fence {
    inner: Arc<Inner>,
}

struct Inner {
    clock: FenceClock,
    until: AtomicU64,
    refused: AtomicU64,
    breached: flyball_latest::Sender<bool>,
}

/// Open without a limit: the fence was never set.
const ALWAYS: u64 = u64::MAX;
/// The latest time that can be represented.
const LAST: u64 = ALWAYS - 1;

/// The clock of a fence.
#[derive(Debug, Clone, Copy)]
pub enum FenceClock {
    /// The machine's time since it was started, suspended or not.
    Boot,
    /// tokio's clock since this time, for tests in virtual time.
    Tokio(Instant),
}

/// A time on a fence's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FenceTime(u64);

impl Add<Duration> for FenceTime {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)).min(LAST))
    }
}

/// A write was not sent, because another process may hold the lease by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease that allows writes has expired")]
pub struct Fenced;

impl Fence {
    pub fn new(clock: FenceClock) -> Self {
        let (until, refused) = (AtomicU64::new(ALWAYS), AtomicU64::new(0));
        Self {
            inner: Arc::new(Inner { clock, until, refused, breached: flyball_latest::Sender::new(false) }),
        }
    }

    pub fn now(&self) -> FenceTime {
        FenceTime(match self.inner.clock {
            FenceClock::Boot => {
                let time = clock_gettime(ClockId::Boottime);
                let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
                seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or_default()
            }
            FenceClock::Tokio(origin) => nanos(origin.elapsed()),
        })
    }

    /// Allows writes until `time`.
    pub fn hold_until(&self, time: FenceTime) {
        self.inner.until.store(time.0, Ordering::Release);
    }

    /// Refuses all writes from now on.
    pub fn close(&self) {
        self.inner.until.store(0, Ordering::Release);
    }

    /// Whether writes may pass now.
    pub fn is_open(&self) -> bool {
        self.left() != Some(Duration::ZERO)
    }

    /// For how long writes may still pass; `None` if there is no limit.
    pub fn left(&self) -> Option<Duration> {
        match self.inner.until.load(Ordering::Acquire) {
            ALWAYS => None,
            until => Some(Duration::from_nanos(until.saturating_sub(self.now().0))),
        }
    }

    /// Called for every write right before it is sent. A refused write is counted and ends the leadership.
    pub fn check(&self) -> Result<(), Fenced> {
        if self.is_open() {
            return Ok(());
        }
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
        self.inner.breached.send_replace(true);
        Err(Fenced)
    }

    /// How many writes were refused.
    pub fn refused(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Completes when writes are refused because the time until which they were allowed is over. A stopped process learns that
    /// late: only [`check`](Self::check) is certain.
    pub async fn expired(&self) {
        loop {
            match self.left() {
                Some(Duration::ZERO) => return,
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Completes when a write has been refused.
    pub async fn breached(&self) {
        let mut breached = self.inner.breached.subscribe();
        // Cannot fail: this fence holds the sender.
        let _ = breached.wait_for(|breached| *breached).await;
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({})", if self.is_open() { "open" } else { "closed" })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(LAST)
}

/// A connection that sends nothing while a fence is closed. Requests that were waiting when the process was stopped (for
/// the rate limiter, for a stream, in a buffer) are checked here last.
pub(crate) struct FencedIo<S> {
    inner: S,
    /// All of them have to be open.
    fences: Vec<Fence>,
}

impl<S> FencedIo<S> {
    pub(crate) fn new(inner: S, fences: Vec<Fence>) -> Self {
        Self { inner, fences }
    }

    fn check(&self) -> io::Result<()> {
        // Pings are checked here, too. Only requests are counted, in `Fence::check`.
        match self.fences.iter().all(Fence::is_open) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, Fenced)),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FencedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FencedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[path = "tests/fence.rs"]
mod tests;
