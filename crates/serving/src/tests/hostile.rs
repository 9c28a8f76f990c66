//! Hostile clients, over TLS, in memory: silent connections, requests that never end, and malformed ones.

use std::net::{IpAddr, SocketAddr};

use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{super::listener::Host, *};

/// A host whose connections are pipes.
struct Rig {
    host: Arc<Host<Server>>,
    roots: rustls::RootCertStore,
    reviews: Arc<Reviews>,
}

impl Rig {
    fn new(closes_on_strangers: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cert_dir = dir.path().display().to_string();
        let options = ServingOptions { cert_dir, ..ServingOptions::default() };
        let config = tls::server_config(&options).unwrap();
        let pem = std::fs::read(dir.path().join("kube-controller-manager.crt")).unwrap();
        let bench = Bench::new(pages(), AuthenticationOptions::default());
        let server = bench.server.closing_on_strangers(closes_on_strangers);
        let host = Host::new(server, config, &options);
        Self { host, roots: certs::roots(&pem, "the pair").unwrap(), reviews: bench.reviews }
    }

    /// The client's end of a new connection.
    fn connect(&self, address: &str) -> DuplexStream {
        let (client, server) = duplex(64 << 10);
        self.host.clone().take(server, address.parse::<IpAddr>().unwrap());
        client
    }

    async fn connect_tls(&self, protocol: &str) -> TlsStream<DuplexStream> {
        self.tls(self.connect("10.0.0.9"), protocol).await
    }

    async fn tls(&self, connection: DuplexStream, protocol: &str) -> TlsStream<DuplexStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        if !protocol.is_empty() {
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        }
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, connection).await.unwrap()
    }

    /// Everything that is received after sending some bytes, until the connection ends or is silent.
    async fn exchange(&self, protocol: &str, bytes: &[u8]) -> String {
        let mut stream = self.connect_tls(protocol).await;
        stream.write_all(bytes).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = vec![];
        let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn http2(&self) -> (hyper::client::conn::http2::SendRequest<Full<Bytes>>, JoinHandle<()>) {
        let stream = TokioIo::new(self.connect_tls("h2").await);
        let (send, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        (send, connection)
    }

    /// Sweeps as the listener does.
    fn sweeping(&self) -> JoinHandle<()> {
        let host = self.host.clone();
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(1)).await;
                host.sweep();
            }
        })
    }
}

const HEALTHZ: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";

/// Reads until the connection ends; how long that took, in seconds.
async fn until_closed(mut stream: impl tokio::io::AsyncRead + Unpin) -> u64 {
    let start = Instant::now();
    let mut sink = vec![0; 4096];
    while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn slow_clients_are_disconnected() {
    let rig = Rig::new(true);
    let sweeping = rig.sweeping();
    let closed = until_closed(rig.connect("10.0.0.1")).await;
    assert!((10..=12).contains(&closed), "no handshake: {closed}");

    let mut half = rig.connect("10.0.0.1");
    half.write_all(&[0x16, 0x03, 0x01, 0x02]).await.unwrap();
    let closed = until_closed(half).await;
    assert!((10..=12).contains(&closed), "half a handshake: {closed}");

    let closed = until_closed(rig.connect_tls("http/1.1").await).await;
    assert!((32..=34).contains(&closed), "no request: {closed}");

    let (read, mut write) = tokio::io::split(rig.connect_tls("http/1.1").await);
    let drip = tokio::spawn(async move {
        for byte in b"GET /healthz HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
            if write.write_all(&[*byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_secs(3)).await;
        }
    });
    let closed = until_closed(read).await;
    assert!((32..=34).contains(&closed), "slow headers: {closed}");
    drip.abort();

    let mut idle = rig.connect_tls("http/1.1").await;
    idle.write_all(HEALTHZ).await.unwrap();
    let closed = until_closed(idle).await;
    assert!((90..=92).contains(&closed), "idle after a request: {closed}");

    // It responds to the server's pings, and sends no request.
    let start = Instant::now();
    let (_send, connection) = rig.http2().await;
    connection.await.unwrap();
    let closed = start.elapsed().as_secs();
    assert!((90..=121).contains(&closed), "idle HTTP/2: {closed}");
    sweeping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_missing_body_does_not_delay_a_response_that_does_not_need_it() {
    let rig = Rig::new(true);
    for (path, code) in [("/healthz", "200"), ("/metrics", "403"), ("/debug/flags/v", "403")] {
        let head = format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
        let start = Instant::now();
        let mut stream = rig.connect_tls("http/1.1").await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, *format!("HTTP/1.1 {code}").as_bytes(), "{path}");
        assert_eq!(start.elapsed(), Duration::ZERO, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_needed_must_come_in_time() {
    let (ca, cluster) = (Ca::new(), ClusterCa::default());
    cluster.apply(&json!({"data": {"client-ca-file": ca.pem}})).unwrap();
    let bench = Bench::with_cluster(pages(), AuthenticationOptions::default(), Some(cluster));
    let never = futures::stream::pending::<Result<hyper::body::Frame<Bytes>, std::io::Error>>();
    let request = Request::put("/debug/flags/v").body(http_body_util::StreamBody::new(never)).unwrap();
    let start = Instant::now();
    let answer = bench.server.answer(request, &ca.client("admin", "system:masters")).await;
    assert_eq!((answer.status().as_u16(), start.elapsed().as_secs()), (408, 32));
}

#[tokio::test(start_paused = true)]
async fn silent_connections_do_not_block_others() {
    let rig = Rig::new(true);
    let mut silent = vec![];
    for at in 0..10_000 {
        silent.push(rig.connect("10.0.0.1"));
        if at % 500 == 0 {
            silent.push(rig.connect("10.0.0.2"));
            assert!(rig.exchange("http/1.1", HEALTHZ).await.starts_with("HTTP/1.1 200"), "after {at}");
        }
    }
    // A connection that was there before, of another address, outlives the flood.
    let mut early = rig.connect_tls("http/1.1").await;
    for _ in 0..1_000 {
        silent.push(rig.connect("10.0.0.1"));
    }
    tokio::task::yield_now().await;
    early.write_all(HEALTHZ).await.unwrap();
    let mut answer = [0; 12];
    early.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, *b"HTTP/1.1 200");
}

#[tokio::test(start_paused = true)]
async fn strangers_do_not_keep_an_http2_connection() {
    #[rustfmt::skip]
    let table = [
        // gate   token          code  closed
        (true,    Some("bad"),   401,  true),
        (true,    None,          200,  true),
        (true,    Some("good"),  200,  false),
        (false,   Some("bad"),   401,  false),
        (false,   None,          200,  false),
    ];
    for (gate, token, code, closed) in table {
        let rig = Rig::new(gate);
        let (mut send, connection) = rig.http2().await;
        let request = || {
            let mut request = Request::get("https://localhost/healthz");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            request.body(Full::<Bytes>::default()).unwrap()
        };
        let answer = send.send_request(request()).await.unwrap();
        assert_eq!(answer.status().as_u16(), code);
        drop(answer);
        if closed {
            let ended = timeout(Duration::from_secs(10), connection).await;
            assert!(ended.is_ok(), "gate {gate}, {token:?}");
        } else {
            let again = send.send_request(request()).await.unwrap();
            assert_eq!(again.status().as_u16(), code, "gate {gate}, {token:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_requests_get_one_plain_response() {
    let rig = Rig::new(true);
    let many = "X-Many: 1\r\n".repeat(200);
    let long = |bytes| format!("X-Long: {}\r\n", "a".repeat(bytes));
    let request = |line: &str, headers: &str, body: &str| {
        format!("{line}\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n{body}")
    };
    let inner = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = format!("Content-Length: {}\r\n", inner.len());
    #[rustfmt::skip]
    let table = [
        ("a page",                    request("GET /healthz HTTP/1.1", "", ""),                         "200"),
        ("HTTP/1.0",                  request("GET /healthz HTTP/1.0", "", ""),                         "200"),
        ("an absolute form",          request("GET https://elsewhere.example/healthz HTTP/1.1", "", ""), "200"),
        ("an encoded path",           request("GET /%68ealthz HTTP/1.1", "", ""),                       "200"),
        ("a path encoded badly",      request("GET /%zz HTTP/1.1", "", ""),                             "400"),
        ("a path with a NUL",         request("GET /healthz%00 HTTP/1.1", "", ""),                      "403"),
        ("a path that climbs",        request("GET /healthz/../metrics HTTP/1.1", "", ""),              "403"),
        ("two slashes",               request("GET //healthz HTTP/1.1", "", ""),                        "403"),
        ("an asterisk",               request("OPTIONS * HTTP/1.1", "", ""),                            "403"),
        ("a tunnel",                  request("CONNECT elsewhere.example:443 HTTP/1.1", "", ""),        "403"),
        ("an unknown method",         request("BREW /metrics HTTP/1.1", "", ""),                        "403"),
        ("a method in small letters", request("get /metrics HTTP/1.1", "", ""),                         "403"),
        ("no body for HEAD",          request("HEAD /healthz HTTP/1.1", "", ""),                        "200"),
        ("a request in a body",       request("GET /healthz HTTP/1.1", &length, inner),                 "200"),
        ("a body where none is read", request("POST /metrics HTTP/1.1", "Content-Length: 3\r\n", "abc"), "403"),
        ("a body in chunks",          request("POST /healthz HTTP/1.1", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), "200"),
        ("two lengths",               request("GET /healthz HTTP/1.1", "Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), "400"),
        ("a length that is none",     request("GET /healthz HTTP/1.1", "Content-Length: -1\r\n", ""),   "400"),
        ("an unknown coding",         request("GET /healthz HTTP/1.1", "Transfer-Encoding: gzip\r\n", ""), "400"),
        ("a header of 60 kB",         request("GET /healthz HTTP/1.1", &long(60_000), ""),              "200"),
        ("a header of 100 kB",        request("GET /healthz HTTP/1.1", &long(100_000), ""),             "431"),
        ("a header of 1 MB",          request("GET /healthz HTTP/1.1", &long(1_000_000), ""),           "431"),
        ("many headers",              request("GET /healthz HTTP/1.1", &many, ""),                      "431"),
        ("a folded header",           request("GET /healthz HTTP/1.1", "X-A: b\r\n c\r\n", ""),         "400"),
        ("an upgrade to HTTP/2",      request("GET /healthz HTTP/1.1", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", ""), "200"),
        ("no HTTP",                   "\u{16}\u{3}\u{1}rubbish\r\n\r\n".to_owned(),                     "400"),
    ];
    for (case, bytes, code) in table {
        for protocol in ["", "http/1.1"] {
            let answer = rig.exchange(protocol, bytes.as_bytes()).await;
            assert_eq!(answer.get(9..12), Some(code), "{case}: {answer}");
            assert_eq!(answer.matches("HTTP/1.").count(), 1, "{case}: {answer}");
        }
    }
    let answer =
        rig.exchange("http/1.1", b"HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    // HTTP/2 is spoken where it was agreed upon, and there only.
    let answer = rig.exchange("", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    assert!(!answer.contains("200"), "{answer}");
    let answer = rig.exchange("h2", HEALTHZ).await;
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
}

const EMFILE: i32 = 24;

/// Fails so many times for lack of descriptors, then accepts one connection, then nothing.
struct Exhausted {
    failures: Mutex<u32>,
    asked: Arc<AtomicU32>,
    connection: Mutex<Option<DuplexStream>>,
}

impl flyball_listen::Listener for Exhausted {
    type Stream = DuplexStream;
    type Address = SocketAddr;

    async fn accept(&self) -> std::io::Result<(DuplexStream, SocketAddr)> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let fails = {
            let mut failures = self.failures.lock();
            let fails = *failures > 0;
            *failures = failures.saturating_sub(1);
            fails
        };
        if fails {
            return Err(std::io::Error::from_raw_os_error(EMFILE));
        }
        let connection = self.connection.lock().take();
        match connection {
            Some(connection) => Ok((connection, "10.0.0.9:1".parse().unwrap())),
            None => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_descriptors_it_waits_closes_silent_connections_and_recovers() {
    let rig = Rig::new(true);
    let silent = rig.connect("10.0.0.1");
    let (client, server) = duplex(64 << 10);
    let asked = Arc::new(AtomicU32::new(0));
    let exhausted =
        Exhausted { failures: Mutex::new(20), asked: asked.clone(), connection: Mutex::new(Some(server)) };
    let accepting = tokio::spawn(rig.host.clone().accept(exhausted));
    assert_eq!(until_closed(silent).await, 0, "a silent connection makes room at the first failure");
    sleep(Duration::from_secs(10)).await;
    let often = asked.load(Ordering::Relaxed);
    assert!((5..=20).contains(&often), "{often} attempts in ten seconds");

    let mut stream = rig.tls(client, "http/1.1").await;
    stream.write_all(HEALTHZ).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, *b"HTTP/1.1 200");
    accepting.abort();
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `count` requests, each of which is cancelled before the next.
fn rapid_resets(count: u32, token: Option<&str>) -> Vec<u8> {
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for n in 0..count {
        // GET and https by their indexes in HPACK's table; path, authority and authorization as literals.
        let mut block = [&[0x82, 0x87, 0x04, 8][..], b"/healthz", &[0x01, 9], b"localhost"].concat();
        if let Some(token) = token {
            let value = format!("Bearer {token}{n}");
            block.extend([0x0f, 0x08, u8::try_from(value.len()).unwrap()]);
            block.extend(value.as_bytes());
        }
        bytes.extend(frame(1, 0x5, 2 * n + 1, &block));
        bytes.extend(frame(3, 0, 2 * n + 1, &CANCEL));
    }
    bytes
}

/// The error codes of all GOAWAY frames.
fn goaways(mut bytes: &[u8]) -> Vec<u32> {
    let mut codes = vec![];
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if let (7, Some(code)) = (kind, rest.get(4..8)) {
            codes.push(u32::from_be_bytes(code.try_into().unwrap()));
        }
        bytes = rest.get(length..).unwrap_or_default();
    }
    codes
}

#[tokio::test(start_paused = true)]
async fn streams_that_are_reset_at_once_end_their_connection() {
    let rig = Rig::new(false);
    for token in [None, Some("made-up")] {
        let (mut read, mut write) = tokio::io::split(rig.connect_tls("h2").await);
        let attack = rapid_resets(10_000, token);
        let mut answer = vec![];
        // The server may close before it has read everything.
        let _ = tokio::join!(
            write.write_all(&attack),
            timeout(Duration::from_secs(5), read.read_to_end(&mut answer))
        );
        let calm = u32::from(h2::Reason::ENHANCE_YOUR_CALM);
        assert_eq!(goaways(&answer), [calm], "{token:?}");
        assert!(rig.exchange("http/1.1", HEALTHZ).await.starts_with("HTTP/1.1 200"), "{token:?}");
    }
    let reviews = rig.reviews.asked.lock().len();
    assert!(reviews <= 200, "{reviews} reviews");
}
