//! Requests that are made at about the same time leave in one TLS record and one system call.
//!
//! `h2` flushes after each larger frame. [`Gathered`] keeps what it writes until [`Driver`], which runs the connection, has let all
//! tasks that are ready write their requests, and the connection has nothing left to write.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is gathered at most: one TLS record.
const FULL: usize = 16 * 1024;

/// While this is set, flushing does nothing.
type Held = Arc<AtomicBool>;

/// Writes to a connection in large pieces.
pub(crate) struct Gathered<I> {
    io: I,
    waiting: Vec<u8>,
    /// How much of it has been written.
    written: usize,
    held: Held,
}

impl<I> Gathered<I> {
    pub(crate) fn new(io: I) -> Self {
        Self { io, waiting: vec![], written: 0, held: Held::default() }
    }

    /// For the [`Driver`] of the connection.
    pub(crate) fn held(&self) -> Held {
        self.held.clone()
    }
}

impl<I: AsyncWrite + Unpin> Gathered<I> {
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.waiting[self.written..]))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.waiting.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Gathered<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Gathered<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.waiting.len() >= FULL {
            ready!(self.drain(cx))?;
        }
        let taken = bytes.len().min(FULL - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.drain(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Runs a connection over a [`Gathered`].
pub(crate) struct Driver<C> {
    connection: C,
    held: Held,
    /// Whether the tasks that were ready have had their turn since this was woken.
    has_waited: bool,
}

impl<C> Driver<C> {
    pub(crate) fn new(connection: C, held: Held) -> Self {
        Self { connection, held, has_waited: false }
    }
}

impl<C: Future + Unpin> Future for Driver<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        if !self.has_waited {
            self.has_waited = true;
            // Puts this task at the end of those that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_waited = false;
        self.held.store(true, Ordering::Relaxed);
        let gathering = Pin::new(&mut self.connection).poll(cx);
        self.held.store(false, Ordering::Relaxed);
        match gathering {
            Poll::Ready(ended) => Poll::Ready(ended),
            // Flushes.
            Poll::Pending => Pin::new(&mut self.connection).poll(cx),
        }
    }
}

#[cfg(test)]
#[path = "tests/gather.rs"]
mod tests;
