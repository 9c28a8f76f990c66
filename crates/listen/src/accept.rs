//! Accepts connections. No error of the listener ends that: most likely the process is out of file descriptors, and other
//! connections will close theirs. After an error there is a pause, longer after each further one.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, unix};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::seldom::Seldom;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Where connections arrive.
pub trait Listener {
    type Stream;
    type Address;

    /// The next connection, and the address of its client.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Self::Address)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Address = SocketAddr;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        Self::accept(self).await
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    type Address = unix::SocketAddr;

    async fn accept(&self) -> io::Result<(UnixStream, unix::SocketAddr)> {
        Self::accept(self).await
    }
}

/// A listener, and its errors.
pub struct Accepting<L> {
    listener: L,
    pause: Duration,
    not_before: Option<Instant>,
    warned: Seldom,
}

impl<L: Listener> Accepting<L> {
    pub fn new(listener: L) -> Self {
        Self { listener, pause: FIRST_PAUSE, not_before: None, warned: Seldom::default() }
    }

    /// The next connection. Dropping the future loses no connection and shortens no pause.
    pub async fn next(&mut self) -> (L::Stream, L::Address) {
        self.next_or(|| {}).await
    }

    /// The same, with a function that is called after each error, to close a connection that can be spared.
    pub async fn next_or(&mut self, make_room: impl Fn()) -> (L::Stream, L::Address) {
        loop {
            if let Some(time) = self.not_before {
                sleep_until(time).await;
                self.not_before = None;
            }
            match self.listener.accept().await {
                Ok(accepted) => {
                    self.pause = FIRST_PAUSE;
                    return accepted;
                }
                // The client has already closed the connection.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.warned.say(|unsaid| tracing::warn!(%error, unsaid, "cannot accept a connection"));
                    make_room();
                    self.not_before = Some(Instant::now() + self.pause);
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

/// Serves each connection on a task of its own, until it is dropped, which ends the connections, too.
pub async fn each<L, F>(listener: L, converse: impl FnMut(L::Stream, L::Address) -> F) -> Infallible
where
    L: Listener,
    F: Future<Output = ()> + Send + 'static,
{
    each_of(usize::MAX, listener, converse).await
}

/// The same for at most so many at a time. Further clients wait.
pub async fn each_of<L, F>(
    most: usize,
    listener: L,
    mut converse: impl FnMut(L::Stream, L::Address) -> F,
) -> Infallible
where
    L: Listener,
    F: Future<Output = ()> + Send + 'static,
{
    let (mut accepting, mut connections) = (Accepting::new(listener), JoinSet::new());
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            (stream, address) = accepting.next(), if connections.len() < most => {
                connections.spawn(converse(stream, address));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use parking_lot::Mutex;

    use super::*;

    /// Accepts what the list has, the last first; then waits forever.
    #[derive(Default)]
    struct Scripted {
        results: Mutex<Vec<Result<u32, io::ErrorKind>>>,
        tried: AtomicUsize,
    }

    impl Scripted {
        fn new(mut results: Vec<Result<u32, io::ErrorKind>>) -> Self {
            results.reverse();
            Self { results: Mutex::new(results), ..Self::default() }
        }
    }

    impl Listener for &Scripted {
        type Stream = u32;
        type Address = ();

        async fn accept(&self) -> io::Result<(u32, ())> {
            self.tried.fetch_add(1, Ordering::Relaxed);
            let next = self.results.lock().pop();
            match next {
                Some(result) => result.map(|stream| (stream, ())).map_err(io::Error::from),
                None => pending().await,
            }
        }
    }

    const OUT_OF_DESCRIPTORS: Result<u32, io::ErrorKind> = Err(io::ErrorKind::Other);

    #[tokio::test(start_paused = true)]
    async fn errors_end_nothing_and_pauses_grow_until_one_succeeds() {
        let script = vec![OUT_OF_DESCRIPTORS, OUT_OF_DESCRIPTORS, Ok(1), OUT_OF_DESCRIPTORS, Ok(2)];
        let listener = Scripted::new(script);
        let (mut accepting, made_room) = (Accepting::new(&listener), AtomicUsize::new(0));
        let make_room = || {
            made_room.fetch_add(1, Ordering::Relaxed);
        };
        let begun = Instant::now();
        assert_eq!(accepting.next_or(make_room).await.0, 1);
        assert_eq!(begun.elapsed(), Duration::from_millis(15));
        assert_eq!(accepting.next_or(make_room).await.0, 2);
        assert_eq!(begun.elapsed(), Duration::from_millis(20));
        assert_eq!(made_room.into_inner(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_its_client_has_closed_costs_no_pause() {
        let listener = Scripted::new(vec![Err(io::ErrorKind::ConnectionAborted), Ok(1)]);
        let begun = Instant::now();
        assert_eq!(Accepting::new(&listener).next().await.0, 1);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_future_does_not_shorten_a_pause() {
        let listener = Scripted::new(vec![OUT_OF_DESCRIPTORS, Ok(1)]);
        let mut accepting = Accepting::new(&listener);
        for _ in 0..3 {
            assert!(accepting.next().now_or_never().is_none());
        }
        assert_eq!(listener.tried.load(Ordering::Relaxed), 1);
        assert_eq!(accepting.next().await.0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_clients_wait_until_a_connection_ends() {
        let listener = Scripted::new(vec![Ok(1), Ok(2), Ok(3)]);
        let (ends, ended) = tokio::sync::oneshot::channel::<()>();
        let (ended, open) = (Mutex::new(Some(ended)), Mutex::new(vec![]));
        let serving = each_of(2, &listener, |stream, ()| {
            open.lock().push(stream);
            let ended = ended.lock().take();
            async move {
                match ended {
                    Some(ended) => drop(ended.await),
                    None => pending().await,
                }
            }
        });
        let mut serving = std::pin::pin!(serving);
        let mut run = async || tokio::time::timeout(Duration::from_secs(1), &mut serving).await.is_err();
        assert!(run().await);
        assert_eq!(*open.lock(), [1, 2]);
        ends.send(()).unwrap();
        assert!(run().await);
        assert_eq!(*open.lock(), [1, 2, 3]);
    }
}
