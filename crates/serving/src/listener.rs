//! The listener: accepts connections, and serves HTTP/1.1 or HTTP/2 over TLS on each.
//!
//! It has its own thread, so that busy controllers do not delay `/healthz`, and clients do not delay controllers. The cost of
//! a connection is limited here and in `connections`.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use flyball_listen::{Accepting, Listener};
use http::{HeaderMap, Request, Response};
use hyper::{
    body::{Body, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream},
    runtime,
    sync::oneshot,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Peer, ServingError, ServingOptions,
    answer::{self, Answer},
    connections::{ConnectionGuard, Connections},
    server::closes,
    tls,
};

/// Headers of one request, in either protocol.
const MAX_HEADERS: u32 = 64 << 10;
/// The HTTP/2 window. Requests have almost no body.
const WINDOW: u32 = 64 << 10;
/// The send buffer for a client that reads slowly.
const SEND_BUFFER: usize = 64 << 10;
/// Upstream: apiserver/pkg/server/secure_serving.go, MaxConcurrentStreams.
const DEFAULT_STREAMS: u32 = 100;
/// Streams that a client opened and reset before they were processed, and streams reset for its errors. Beyond that, the
/// connection is closed.
const RESETS: usize = 20;
const ERRORS: usize = 100;
const SWEEP_EVERY: Duration = Duration::from_secs(1);
const BACKLOG: u32 = 1024;
/// How much of a request that is too large is read and discarded, and for how long, so that the client sees the response.
const LINGER_BYTES: u64 = 1 << 20;
const LINGER: Duration = Duration::from_millis(500);

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Listening {
    pub address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

/// Answers requests, on the listener's thread.
pub(super) trait Respond: Send + Sync + 'static {
    fn respond(&self, request: Request<Incoming>, peer: &Peer) -> impl Future<Output = Answer> + Send;
}

/// Starts to listen and serve; `None` if the port is 0.
pub(super) fn listen(
    responder: impl Respond,
    options: &ServingOptions,
) -> Result<Option<Listening>, ServingError> {
    if options.port == 0 {
        return Ok(None);
    }
    let port = u16::try_from(options.port).map_err(|_| {
        ServingError::Options(format!("{} {} is not a port", options.flag("secure-port"), options.port))
    })?;
    let config = tls::server_config(options).map_err(ServingError::Options)?;
    let address = SocketAddr::new(options.bind_address, port);
    let failed = |source| ServingError::Listen {
        address,
        flags: format!("{}, {}", options.flag("bind-address"), options.flag("secure-port")),
        source,
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let bound = {
        let _context = runtime.enter();
        bind(address, options)
    };
    let listener = match bound {
        Ok(listener) => listener,
        Err(error) => {
            // Dropping a runtime blocks, which is not allowed within another runtime.
            runtime.shutdown_background();
            return Err(failed(error));
        }
    };
    let address = listener.local_addr().unwrap_or(address);
    let host = Host::new(responder, config, options);
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = move || {
        runtime.block_on(async {
            tokio::select! {
                () = host.accept(Prompt(listener)) => {}
                _ = stopped => {}
            }
        });
        runtime.shutdown_background();
    };
    std::thread::Builder::new()
        .name(format!("{}serving", options.flag_prefix))
        .spawn(serve)
        .map_err(failed)?;
    Ok(Some(Listening { address, _stop: stop }))
}

fn bind(address: SocketAddr, options: &ServingOptions) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if options.permit_port_sharing {
        socket.set_reuseport(true)?;
    }
    // Accepted connections inherit it.
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// TCP connections whose small responses are sent at once.
struct Prompt(TcpListener);

impl Listener for Prompt {
    type Stream = TcpStream;
    type Address = SocketAddr;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = self.0.accept().await?;
        // A failure only costs some milliseconds of latency.
        let _ = stream.set_nodelay(true);
        Ok((stream, address))
    }
}

pub(super) struct Host<R> {
    responder: R,
    acceptor: TlsAcceptor,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    connections: Arc<Connections>,
}

impl<R: Respond> Host<R> {
    pub(super) fn new(responder: R, config: rustls::ServerConfig, options: &ServingOptions) -> Arc<Self> {
        Arc::new(Self {
            responder,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            http1: http1(),
            http2: http2(options),
            connections: Connections::new(),
        })
    }

    /// Accepts connections forever: no error ends it.
    pub(super) async fn accept<L>(self: Arc<Self>, listener: L)
    where
        L: Listener<Address = SocketAddr>,
        L::Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut accepting = Accepting::new(listener);
        let mut tick = interval(SWEEP_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Without a descriptor for it, an idle connection is closed.
                (stream, address) = accepting.next_or(|| self.connections.evict_one()) => {
                    self.clone().take(stream, address.ip());
                }
                _ = tick.tick(), if !self.connections.is_empty() => self.connections.sweep(),
            }
        }
    }

    /// Serves a connection on a task of its own.
    pub(super) fn take<S>(self: Arc<Self>, stream: S, address: IpAddr)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let guard = self.connections.admit(address);
        let (id, connections) = (guard.id(), self.connections.clone());
        let task = tokio::spawn(self.converse(stream, guard));
        connections.served_by(id, task.abort_handle());
    }

    /// Ends connections that take too long.
    #[cfg(test)]
    pub(super) fn sweep(&self) {
        self.connections.sweep();
    }

    async fn converse<S>(self: Arc<Self>, stream: S, guard: Arc<ConnectionGuard>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = match self.acceptor.accept(stream).await {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
        };
        let (_, session) = stream.get_ref();
        let certificates = session.peer_certificates().unwrap_or_default().to_vec();
        let speaks_http2 = session.alpn_protocol() == Some(b"h2");
        guard.open(speaks_http2);
        let peer = Arc::new(Peer { certificates });
        let service = service_fn({
            let (host, guard) = (self.clone(), guard.clone());
            move |request| host.clone().serve(request, peer.clone(), guard.clone())
        });
        let ended = if speaks_http2 {
            let connection = self.http2.serve_connection(TokioIo::new(stream), service);
            drive(connection, &guard, |connection| connection.graceful_shutdown()).await
        } else {
            let stream = Watched { stream, guard: guard.clone() };
            let mut connection = self.http1.serve_connection(TokioIo::new(stream), service);
            let ended = drive(&mut connection, &guard, |connection| {
                Pin::new(&mut **connection.get_mut()).graceful_shutdown();
            })
            .await;
            if ended.as_ref().is_err_and(hyper::Error::is_parse_too_large) {
                linger(connection.into_parts().io.into_inner().stream).await;
            }
            ended
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }

    async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        guard: Arc<ConnectionGuard>,
    ) -> Result<Response<impl Body<Data = bytes::Bytes, Error = std::convert::Infallible>>, h2::Error> {
        // A client could ignore GOAWAY and send more requests.
        let Some(_served) = guard.serve() else { return Err(h2::Reason::REFUSED_STREAM.into()) };
        let answer = match size(request.headers()) > MAX_HEADERS as usize {
            true => answer::headers_too_large(),
            false => self.responder.respond(request, &peer).await,
        };
        if closes(&answer) {
            guard.close();
        }
        Ok(answer)
    }
}

/// Serves a connection until it ends, and shuts it down when it has to close.
async fn drive<C>(connection: C, guard: &ConnectionGuard, close: fn(Pin<&mut C>)) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = guard.retired() => {}
    }
    close(connection.as_mut());
    connection.await
}

/// The size of headers. The library refuses a request whose headers exceed its buffer, but may read more than that at once.
fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Reads a little of what the client still sends. A connection that is closed with unread bytes is reset, and the reset may
/// reach the client before the response.
async fn linger(stream: impl AsyncRead + Unpin) {
    let discard = async { tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await };
    let _ = timeout(LINGER, discard).await;
}

fn http1() -> http1::Builder {
    let mut http = http1::Builder::new();
    // `connections` has different timeouts for waiting for a request and for its end. The library's timeout does not.
    http.header_read_timeout(None).max_buf_size(MAX_HEADERS as usize);
    http
}

fn http2(options: &ServingOptions) -> http2::Builder<TokioExecutor> {
    let streams = u32::try_from(options.http2_max_streams).ok().filter(|streams| *streams > 0);
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(streams.unwrap_or(DEFAULT_STREAMS))
        .max_header_list_size(MAX_HEADERS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(ERRORS)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    http
}

/// A stream that reports when a request begins to arrive.
struct Watched<S> {
    stream: S,
    guard: Arc<ConnectionGuard>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.guard.reading();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
