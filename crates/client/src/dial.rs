//! Opens one connection to the API server: TCP, a proxy's tunnel where there is one, TLS, then HTTP/2 if the server
//! speaks it and HTTP/1.1 otherwise.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::fence::{Fence, FencedIo};
use crate::http2;
use crate::pulse::{PING_TIMEOUT, QUIET};
use crate::race::race;
use crate::transport::BoxError;

/// TCP, TLS and the first frames together.
const DIAL_TIMEOUT: Duration = Duration::from_secs(15);

/// TCP_USER_TIMEOUT: a connection fails if sent data is not acknowledged for this long, which equals the HTTP/2 ping timeouts.
/// TCP keep-alive does not cover that case, and Linux by default gives up after 15 minutes.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = QUIET.saturating_add(PING_TIMEOUT);

/// The timeout of a DNS look-up, which is done for each connection.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The same if addresses are known: a name server that is silent must not cost the leader its lease.
const SHORT_LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) struct Dialer {
    to: Arc<Destination>,
    resolve: Resolve,
    seen: Arc<Mutex<Seen>>,
}

type Resolve = fn(String, u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>>;

/// The host to connect to.
struct Destination {
    url: http::Uri,
    tls_name: Option<ServerName<'static>>,
    proxy: Option<Intercept>,
    carries: Carries,
}

/// What the connections of a dialer are for.
#[derive(Clone)]
pub(crate) enum Carries {
    /// Watches, which write nothing.
    Watches,
    /// Requests. Nothing is sent while one of the fences is closed, and nothing after the connection was closed.
    Requests(Vec<Fence>),
}

impl Carries {
    fn fences(&self) -> &[Fence] {
        match self {
            Self::Watches => &[],
            Self::Requests(fences) => fences,
        }
    }
}

/// What is known from earlier connections.
#[derive(Default)]
struct Seen {
    addresses: Vec<SocketAddr>,
    worked: Option<SocketAddr>,
    /// A look-up that is under way.
    looking: Option<LookUp>,
}

/// A DNS look-up on its own task. It completes even if its caller is cancelled; the next dial then uses its result.
type LookUp = Shared<BoxFuture<'static, Result<Vec<SocketAddr>, Arc<str>>>>;

/// A connection that is ready for HTTP.
enum Stream {
    Plain(FencedIo<TcpStream>),
    Tls(Box<TlsStream<FencedIo<TcpStream>>>),
}

pub(crate) enum Link {
    Http2(http2::Connection),
    Http1(http1::SendRequest<Full<Bytes>>),
}

impl Dialer {
    /// `tls_server_name` overrides the name in the server's certificate.
    pub(crate) fn new(
        url: http::Uri,
        tls_server_name: Option<&str>,
        proxy: Option<http::Uri>,
        carries: Carries,
    ) -> Result<Self, BoxError> {
        let host = url.host().unwrap_or_default();
        let tls_name = if url.scheme_str() == Some("https") {
            let name = tls_server_name.unwrap_or_else(|| bare(host));
            Some(
                ServerName::try_from(name.to_owned())
                    .map_err(|e| format!("TLS server name {name:?}: {e}"))?,
            )
        } else {
            None
        };
        let matcher = match proxy {
            Some(proxy) => Some(Matcher::builder().all(proxy.to_string()).build()),
            // As in Go, the proxies of the environment are not used for localhost.
            None if is_loopback(host) => None,
            None => Some(Matcher::from_env()),
        };
        let proxy = matcher.and_then(|m| m.intercept(&url));
        if let Some(proxy) = &proxy {
            let uri = proxy.uri();
            if uri.scheme_str() != Some("http") {
                return Err(format!("proxy {uri}: only http:// proxies are supported").into());
            }
        }
        let to = Arc::new(Destination { url, tls_name, proxy, carries });
        Ok(Self { to, resolve: look_up, seen: Arc::default() })
    }

    /// The same for connections that are also closed to requests by this fence.
    pub(crate) fn under(&self, fence: &Fence) -> Self {
        let Destination { url, tls_name, proxy, carries } = &*self.to;
        let carries = Carries::Requests(carries.fences().iter().chain([fence]).cloned().collect());
        let to = Destination { url: url.clone(), tls_name: tls_name.clone(), proxy: proxy.clone(), carries };
        Self { to: Arc::new(to), resolve: self.resolve, seen: self.seen.clone() }
    }

    /// The server, for messages.
    pub(crate) fn describe(&self) -> String {
        self.to.to_string()
    }

    pub(crate) fn url(&self) -> &http::Uri {
        &self.to.url
    }

    pub(crate) async fn dial(&self, tls: Arc<rustls::ClientConfig>) -> Result<Link, BoxError> {
        let addresses = self.addresses().await?;
        let secure = |tcp| -> BoxFuture<'static, Result<Stream, BoxError>> {
            let (to, tls) = (self.to.clone(), tls.clone());
            Box::pin(async move { to.secure(tcp, tls).await })
        };
        let reached = race(addresses, DIAL_TIMEOUT, |address| Box::pin(connect(address)), secure).await;
        let (address, stream) = reached.map_err(|problems| format!("{}: {problems}", self.to))?;
        self.seen.lock().worked = Some(address);
        tokio::time::timeout(DIAL_TIMEOUT, open(stream)).await?
    }

    /// The addresses, with the last working one first. If the look-up fails or is late, the last known addresses.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, BoxError> {
        let known = self.seen.lock().addresses.clone();
        let patience = if known.is_empty() { LOOKUP_TIMEOUT } else { SHORT_LOOKUP_TIMEOUT };
        let late = || Err(format!("no answer within {patience:?}").into());
        let found = tokio::time::timeout(patience, self.look_up()).await.unwrap_or_else(|_| late());
        let host = self.to.first_hop().0;
        let mut addresses = match found {
            Ok(found) => found,
            Err(problem) if known.is_empty() => {
                return Err(format!("{}: look up {host}: {problem}", self.to).into());
            }
            Err(problem) => {
                tracing::debug!(host, %problem, "the name cannot be looked up, using the last known addresses");
                known
            }
        };
        let worked = self.seen.lock().worked;
        if let Some(at) = addresses.iter().position(|address| Some(*address) == worked) {
            addresses[..=at].rotate_right(1);
        }
        Ok(addresses)
    }

    /// Joins the look-up that is under way, or starts one.
    fn look_up(&self) -> LookUp {
        let mut seen = self.seen.lock();
        if let Some(looking) = seen.looking.as_ref().filter(|looking| looking.peek().is_none()) {
            return looking.clone();
        }
        let (host, port) = self.to.first_hop();
        let looking = tokio::spawn(look_up_into(self.seen.clone(), (self.resolve)(host, port)));
        let looking = looking.map(|found| found.unwrap_or_else(|error| Err(error.to_string().into())));
        seen.looking.insert(looking.boxed().shared()).clone()
    }
}

async fn look_up_into(
    seen: Arc<Mutex<Seen>>,
    resolving: BoxFuture<'static, std::io::Result<Vec<SocketAddr>>>,
) -> Result<Vec<SocketAddr>, Arc<str>> {
    let found = match tokio::time::timeout(LOOKUP_TIMEOUT, resolving).await {
        Ok(Ok(found)) if !found.is_empty() => Ok(found),
        Ok(Ok(_)) => Err("it has no address".into()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err(format!("no answer within {LOOKUP_TIMEOUT:?}").into()),
    };
    let mut seen = seen.lock();
    if let Ok(found) = &found {
        seen.addresses.clone_from(found);
    }
    seen.looking = None;
    found
}

/// The URL without a user and password.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let host = authority.rsplit('@').next().unwrap_or_default();
        write!(f, "{}://{host}{}", self.url.scheme_str().unwrap_or_default(), self.url.path())
    }
}

impl Destination {
    /// The host to connect to: the proxy, if there is one.
    fn first_hop(&self) -> (String, u16) {
        let url = self.proxy.as_ref().map_or(&self.url, |proxy| proxy.uri());
        let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
        (bare(url.host().unwrap_or_default()).to_owned(), port)
    }

    /// Sets up the proxy tunnel and TLS on a TCP connection.
    async fn secure(&self, tcp: TcpStream, tls: Arc<rustls::ClientConfig>) -> Result<Stream, BoxError> {
        let tcp = match &self.proxy {
            Some(proxy) => tunnel(proxy, tcp, self.url.clone()).await?,
            None => tcp,
        };
        if let Carries::Requests(_) = self.carries {
            // SO_LINGER 0: unsent data is discarded when the connection is closed or the process ends. Otherwise the kernel could
            // deliver a write after a network partition: when another process leads, or when this one has read that it was not made.
            tcp.set_zero_linger()?;
        }
        let tcp = FencedIo::new(tcp, self.carries.fences().to_vec());
        Ok(match &self.tls_name {
            Some(name) => Stream::Tls(Box::new(TlsConnector::from(tls).connect(name.clone(), tcp).await?)),
            None => Stream::Plain(tcp),
        })
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, BoxError> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    // HTTP/1.1 has no pings.
    let keepalive = TcpKeepalive::new().with_time(PING_TIMEOUT).with_interval(PING_TIMEOUT).with_retries(3);
    SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    SockRef::from(&tcp).set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(tcp)
}

/// Begins HTTP on a connection.
async fn open(stream: Stream) -> Result<Link, BoxError> {
    match stream {
        Stream::Plain(tcp) => http1_link(TokioIo::new(tcp)).await,
        Stream::Tls(tls) if tls.get_ref().1.alpn_protocol() == Some(b"h2") => {
            http2::Connection::open(*tls).await.map(Link::Http2)
        }
        Stream::Tls(tls) => http1_link(TokioIo::new(*tls)).await,
    }
}

/// Opens a tunnel to `server` through a proxy.
async fn tunnel(proxy: &Intercept, tcp: TcpStream, server: http::Uri) -> Result<TcpStream, BoxError> {
    let mut connected = Some(TokioIo::new(tcp));
    let connector = tower::service_fn(move |_: http::Uri| {
        let connected =
            connected.take().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected));
        std::future::ready(connected)
    });
    let mut tunnel = Tunnel::new(proxy.uri().clone(), connector);
    if let Some(auth) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(auth.clone());
    }
    Ok(tunnel.call(server).await?.into_inner())
}

/// The system's DNS resolver.
fn look_up(host: String, port: u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}

/// A host without the brackets of IPv6.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_loopback(host: &str) -> bool {
    let host = bare(host);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn http1_link<I>(io: I) -> Result<Link, BoxError>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new().handshake(io).await?;
    tokio::spawn(connection.map(|ended| {
        // Each request has its own error, so this is only a debug line.
        if let Err(error) = ended {
            tracing::debug!(error = &error as &dyn std::error::Error, "connection to the API server ended");
        }
    }));
    Ok(Link::Http1(sender))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    /// An address that does not respond: a listener whose queue is full drops packets, as a dead machine does.
    async fn blackhole() -> (SocketAddr, Vec<TcpStream>, TcpListener) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = vec![];
        while let Ok(Ok(tcp)) =
            tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await
        {
            queued.push(tcp);
        }
        (address, queued, listener)
    }

    async fn listener() -> (SocketAddr, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        (listener.local_addr().unwrap(), listener)
    }

    fn tls() -> Arc<rustls::ClientConfig> {
        flyball_tls::install();
        let roots = rustls::RootCertStore::empty();
        Arc::new(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    }

    /// Look-ups in these tests need no DNS: the port identifies the result.
    static ANSWERS: Mutex<Vec<(u16, Vec<SocketAddr>)>> = Mutex::new(vec![]);

    fn dialer(key: u16, answers: Vec<SocketAddr>) -> Dialer {
        ANSWERS.lock().push((key, answers));
        let url = format!("http://api.test:{key}").parse().unwrap();
        let resolve: Resolve = |_, port| {
            let answers = ANSWERS.lock();
            let found = answers.iter().rev().find(|(key, _)| *key == port).map(|(_, found)| found.clone());
            let found = found.filter(|found| !found.is_empty());
            Box::pin(std::future::ready(found.ok_or_else(|| std::io::Error::other("no such name"))))
        };
        Dialer { resolve, ..Dialer::new(url, None, None, Carries::Requests(vec![])).unwrap() }
    }

    #[tokio::test]
    async fn a_second_address_is_tried_when_the_first_is_blackholed() {
        let (dead, _queued, _kept) = blackhole().await;
        let (alive, _listener) = listener().await;
        let dialer = dialer(1, vec![dead, alive]);
        assert!(matches!(dialer.dial(tls()).await, Ok(Link::Http1(_))));
        assert_eq!(dialer.addresses().await.unwrap(), [alive, dead], "what worked goes first");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_gives_up_a_connection_whose_data_is_not_acknowledged() {
        let (address, _listener) = listener().await;
        let tcp = connect(address).await.unwrap();
        let socket = SockRef::from(&tcp);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(20)));
        assert!(socket.keepalive().unwrap());
    }

    /// What the kernel holds, it sends for as long as it takes, also when the process has ended. A barrier that has read the outcome of
    /// a write meanwhile must not be proved wrong, and with leader election another process may lead by then.
    #[tokio::test]
    async fn what_was_not_sent_when_a_connection_for_requests_is_closed_never_arrives() {
        let fenced = Carries::Requests(vec![Fence::new(crate::FenceClock::Boot)]);
        for (carries, discards) in
            [(fenced, true), (Carries::Requests(vec![]), true), (Carries::Watches, false)]
        {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(1 << 12).unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = socket.listen(1).unwrap();
            let address = listener.local_addr().unwrap();
            let dialer =
                Dialer::new(format!("http://{address}").parse().unwrap(), None, None, carries).unwrap();
            let secured = dialer.to.secure(connect(address).await.unwrap(), tls()).await.unwrap();
            let Stream::Plain(mut client) = secured else { panic!("it is plain") };
            let (mut server, _) = listener.accept().await.unwrap();
            // The server does not read: in the end our kernel has what its kernel does not take.
            let mut written = client.write(&[0; 1 << 16]).await.unwrap();
            while let Some(more) = client.write(&[0; 1 << 16]).now_or_never() {
                written += more.unwrap();
            }
            drop(client);
            let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
            while let Ok(more @ 1..) = server.read(&mut buffer).await {
                received += more;
            }
            assert_eq!(received < written, discards, "{received} of {written} bytes");
        }
    }

    #[tokio::test]
    async fn known_addresses_are_used_while_names_cannot_be_looked_up() {
        let (alive, _listener) = listener().await;
        let dialer = dialer(2, vec![alive]);
        assert!(dialer.dial(tls()).await.is_ok());
        ANSWERS.lock().push((2, vec![]));
        assert!(dialer.dial(tls()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_name_server_delays_a_dial_to_known_addresses_only_briefly() {
        static SILENT: AtomicBool = AtomicBool::new(false);
        let resolve: Resolve = |_, _| match SILENT.load(Ordering::Relaxed) {
            true => Box::pin(tokio::time::sleep(Duration::from_secs(3)).map(|()| Ok(vec![address(2)]))),
            false => Box::pin(std::future::ready(Ok(vec![address(1)]))),
        };
        let url = "http://api.test".parse().unwrap();
        let dialer = Dialer { resolve, ..Dialer::new(url, None, None, Carries::Requests(vec![])).unwrap() };
        assert_eq!(dialer.addresses().await.unwrap(), [address(1)]);
        SILENT.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            let found = tokio::time::timeout(Duration::from_secs(1), dialer.addresses()).await;
            assert_eq!(found.expect("in time").unwrap(), [address(1)], "the elector has five seconds");
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let found = dialer.addresses().await.unwrap();
        assert_eq!(found, [address(2)], "the look-up has gone on, and is one");
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[tokio::test]
    async fn a_dial_that_fails_says_where_and_why() {
        let refused = listener().await.0;
        let error = dialer(3, vec![refused]).dial(tls()).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("http://api.test:3/: {refused}: Connection refused")), "{error}");
        let error = dialer(4, vec![]).dial(tls()).await.err().unwrap().to_string();
        assert_eq!(error, "http://api.test:4/: look up api.test: no such name");
        let url = "http://ann:secret@api.test:4/".parse().unwrap();
        let secret = Dialer {
            resolve: dialer(4, vec![]).resolve,
            ..Dialer::new(url, None, None, Carries::Requests(vec![])).unwrap()
        };
        let error = secret.dial(tls()).await.err().unwrap().to_string();
        assert_eq!(error, "http://api.test:4/: look up api.test: no such name");
    }

    #[tokio::test]
    async fn a_server_that_speaks_no_tls_is_named() {
        let (address, listener) = listener().await;
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                let _ = tcp.read(&mut [0; 512]).await;
                let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            }
        });
        let url = format!("https://{address}").parse().unwrap();
        let error = Dialer::new(url, None, None, Carries::Requests(vec![]))
            .unwrap()
            .dial(tls())
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(&address.to_string()) && error.contains("corrupt message"), "{error}");
    }
}
