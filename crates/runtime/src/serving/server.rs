//! The listener: TLS, HTTP/1.1 and HTTP/2, and for each request who, whether, and what.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Limited};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Notify, Semaphore},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{
    Authenticator, Authorizer, Pages, Peer, ServingOptions,
    answer::{self, Answer},
    authn::{ANONYMOUS, Rejected},
    authz::Verdict,
    routes, tls,
};

const MAX_CONNECTIONS: usize = 1000;
const MAX_BODY: usize = 64 << 10;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
const HEADERS_WITHIN: Duration = Duration::from_secs(32);
/// Streams per HTTP/2 connection where the options leave it open.
const DEFAULT_STREAMS: u32 = 250;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// Files or options are not usable; the text names them.
    #[error("{0}")]
    Options(String),
    /// The address cannot be had.
    #[error("cannot listen on {address} (--bind-address, --secure-port)")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// Answers requests; knows no sockets.
#[derive(Debug)]
pub struct Server {
    pages: Pages,
    authenticator: Authenticator,
    authorizer: Authorizer,
}

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Listening {
    /// Where.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// A server of these pages.
    pub fn new(pages: Pages, authenticator: Authenticator, authorizer: Authorizer) -> Self {
        Self { pages, authenticator, authorizer }
    }

    /// Starts to listen and serve; nothing when the port is 0.
    pub fn listen(self, options: &ServingOptions) -> Result<Option<Listening>, ServingError> {
        if options.port == 0 {
            return Ok(None);
        }
        let port = u16::try_from(options.port)
            .map_err(|_| ServingError::Options(format!("--secure-port {} is not a port", options.port)))?;
        let config = tls::server_config(options).map_err(ServingError::Options)?;
        let address = SocketAddr::new(options.bind_address, port);
        let listener = bind(address, options).map_err(|source| ServingError::Listen { address, source })?;
        Ok(Some(self.serve(listener, config, options)))
    }

    fn serve(
        self,
        listener: TcpListener,
        config: rustls::ServerConfig,
        options: &ServingOptions,
    ) -> Listening {
        let address = listener.local_addr().unwrap_or(SocketAddr::new(options.bind_address, 0));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let http = http(options);
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let server = Arc::new(self);
        let task = tokio::spawn(async move {
            loop {
                let Ok(place) = room.clone().acquire_owned().await else { return };
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of descriptors, most likely: wait for some to be closed.
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let (server, acceptor, http) = (server.clone(), acceptor.clone(), http.clone());
                tokio::spawn(async move {
                    server.connection(stream, acceptor, http).await;
                    drop(place);
                });
            }
        });
        Listening { address, task }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        acceptor: TlsAcceptor,
        http: auto::Builder<TokioExecutor>,
    ) {
        let stream = match timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => return tracing::debug!("TLS handshake took too long"),
        };
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
        let peer = Arc::new(Peer { certificates });
        let nobody = Arc::new((AtomicBool::new(false), Notify::new()));
        let service = service_fn({
            let nobody = nobody.clone();
            move |request| {
                let (server, peer, nobody) = (self.clone(), peer.clone(), nobody.clone());
                async move {
                    let answer = server.receive(request, &peer).await;
                    if answer.extensions().get::<CloseAfter>().is_some()
                        && !nobody.0.swap(true, Ordering::Relaxed)
                    {
                        nobody.1.notify_one();
                    }
                    Ok::<_, Infallible>(answer)
                }
            }
        });
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut closing = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                    return;
                }
                () = nobody.1.notified(), if !closing => {
                    closing = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn receive(&self, request: Request<hyper::body::Incoming>, peer: &Peer) -> Answer {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => return answer::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n"),
        };
        self.answer(Request::from_parts(head, body), peer).await
    }

    /// The answer to one request.
    pub(super) async fn answer(&self, request: Request<Bytes>, peer: &Peer) -> Answer {
        let mut answer = self.decide(&request, peer).await;
        if request.method() == Method::HEAD {
            answer::behead(&mut answer);
        }
        let headers = answer.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        answer
    }

    async fn decide(&self, request: &Request<Bytes>, peer: &Peer) -> Answer {
        let user = match self.authenticator.authenticate(request.headers(), peer).await {
            Ok(user) => user,
            Err(Rejected(reason)) => {
                tracing::info!(reason, "a request's credentials were rejected");
                return answer::unauthorized();
            }
        };
        let (verb, path) = (request.method().as_str().to_ascii_lowercase(), request.uri().path());
        let answer = match self.authorizer.authorize(&user, &verb, path).await {
            Ok(Verdict::Allowed) => routes::route(&self.pages, request),
            Ok(Verdict::Denied(reason)) => {
                let refusal = format!("User {:?} cannot {verb} path {path:?}", user.name);
                answer::forbidden(&if reason.is_empty() { refusal } else { format!("{refusal}: {reason}") })
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "an access review failed");
                answer::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("Internal Server Error: {path:?}: {error}\n"),
                )
            }
        };
        // Streams are cheap to open for those who mean harm: nobody unknown keeps an HTTP/2 connection.
        if user.name == ANONYMOUS && request.version() == Version::HTTP_2 {
            close_after(answer)
        } else {
            answer
        }
    }
}

#[derive(Clone)]
struct CloseAfter;

fn close_after(mut answer: Answer) -> Response<http_body_util::Full<Bytes>> {
    answer.extensions_mut().insert(CloseAfter);
    answer
}

fn bind(address: SocketAddr, options: &ServingOptions) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if options.permit_port_sharing {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(1024)
}

fn http(options: &ServingOptions) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    let streams = u32::try_from(options.http2_max_streams).ok().filter(|streams| *streams > 0);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams.unwrap_or(DEFAULT_STREAMS))
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    if options.disable_http2 { http.http1_only() } else { http }
}
