//! The connection layer against a real HTTP server on loopback: how streams are spread, what happens when
//! connections end, and what is known about requests that were on them.
#![allow(clippy::unwrap_used)] // helpers of tests, too, may fail the test

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flyball_client::{
    Client, ClientOptions, ConnectOptions, Connection, Error, Fence, FenceClock, WatchParams, connect,
    connect_to_lead,
};
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// A server that responds to `/api…` with the number of the connection, and to watches with a stream that stays open.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Counts up to end all connections.
    kick: watch::Sender<usize>,
    /// Counts up to make all current connections silent, without ending them.
    freeze: watch::Sender<usize>,
    /// Whether TLS handshakes are answered.
    shakes_hands: watch::Sender<bool>,
    /// TCP connections.
    accepted: Arc<AtomicUsize>,
    /// Counts writes, which get no response.
    hanging: watch::Sender<usize>,
    dir: tempfile::TempDir,
}

#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Http2,
    /// With at most so many streams on a connection.
    Http2Streams(u32),
    Http1,
    /// These bytes, on a connection that claims to be HTTP/2 and then ends.
    Only(&'static [u8]),
}

impl Server {
    async fn start(speaks: Speaks) -> Self {
        flyball_tls::install();
        let dir = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(dir.path().join("ca.crt"), certified.cert.pem()).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        if speaks != Speaks::Http1 {
            tls.alpn_protocols = vec![b"h2".to_vec()];
        }
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (kick, kicked) = watch::channel(0);
        let (freeze, frozen) = watch::channel(0);
        let hanging = watch::Sender::new(0);
        let writes = hanging.clone();
        let (shakes_hands, may_shake) = watch::channel(true);
        let accepted = Arc::<AtomicUsize>::default();
        let (counter, tcp_counter) = (connections.clone(), accepted.clone());
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tcp_counter.fetch_add(1, Ordering::SeqCst);
                let (acceptor, counter, mut may_shake) =
                    (acceptor.clone(), counter.clone(), may_shake.clone());
                let (kicked, frozen, writes) = (kicked.clone(), frozen.clone(), writes.clone());
                tokio::spawn(async move {
                    let _ = may_shake.wait_for(|may| *may).await;
                    let Ok(mut stream) = acceptor.accept(tcp).await else { return };
                    let number = counter.fetch_add(1, Ordering::SeqCst);
                    if let Speaks::Only(bytes) = speaks {
                        // As soon as the client has sent something.
                        let _ = stream.read(&mut [0; 1024]).await;
                        let _ = stream.write_all(bytes).await;
                        let _ = stream.flush().await;
                        return;
                    }
                    serve(TokioIo::new(stream), speaks, number, (kicked, frozen), writes).await;
                });
            }
        });
        Self { address, connections, kick, freeze, shakes_hands, accepted, hanging, dir }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_with("")
    }

    /// `more` is added to the cluster entry.
    fn kubeconfig_with(&self, more: &str) -> PathBuf {
        let file = self.dir.path().join("kubeconfig");
        let text = format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority: ca.crt{more}}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\n",
            self.address
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    async fn connect(&self) -> Connection {
        connect(&ConnectOptions { kubeconfig: Some(self.kubeconfig()), ..ConnectOptions::default() })
            .await
            .unwrap()
    }

    async fn client(&self) -> Client {
        let connection = self.connect().await;
        let options = ClientOptions { qps: 0.0, ..ClientOptions::default() };
        Client::with_watches(connection.transport(), connection.watch_transport(), options)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(
    io: TokioIo<tokio_rustls::server::TlsStream<tokio::net::TcpStream>>,
    speaks: Speaks,
    number: usize,
    (mut end, mut frozen): (watch::Receiver<usize>, watch::Receiver<usize>),
    hanging: watch::Sender<usize>,
) {
    end.mark_unchanged();
    frozen.mark_unchanged();
    let service =
        service_fn(move |request: hyper::Request<Incoming>| answer(request, number, hanging.clone()));
    let mut connection: futures::future::BoxFuture<'_, hyper::Result<()>> = match speaks {
        Speaks::Http2 => Box::pin(
            hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service),
        ),
        Speaks::Http2Streams(most) => Box::pin(
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(most)
                .serve_connection(io, service),
        ),
        Speaks::Http1 | Speaks::Only(_) => {
            Box::pin(hyper::server::conn::http1::Builder::new().serve_connection(io, service))
        }
    };
    tokio::select! {
        _ = &mut connection => return,
        _ = end.changed() => return,
        _ = frozen.changed() => {}
    }
    let _ = end.changed().await;
}

type Answer = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

async fn answer(
    request: hyper::Request<Incoming>,
    number: usize,
    hanging: watch::Sender<usize>,
) -> Result<hyper::Response<Answer>, Infallible> {
    assert_eq!(request.headers()["authorization"], "Bearer t");
    if request.method() == hyper::Method::POST {
        hanging.send_modify(|n| *n += 1);
        std::future::pending::<()>().await;
    }
    let is_watch = request.uri().query().is_some_and(|q| q.contains("watch=true"));
    let text = format!("{{\"type\":\"ADDED\",\"object\":{{\"connection\":{number}}}}}\n");
    let first = stream::iter([Ok(Frame::data(Bytes::from(text)))]);
    let body = if is_watch {
        StreamBody::new(first.chain(stream::pending())).boxed_unsync()
    } else {
        let text = format!("{{\"connection\":{number}}}");
        StreamBody::new(stream::iter([Ok(Frame::data(Bytes::from(text)))])).boxed_unsync()
    };
    Ok(hyper::Response::new(body))
}

static PODS: flyball_api::ResourceType = flyball_api::ResourceType::new("", "v1", "pods", "Pod", true);

#[tokio::test]
async fn requests_share_one_connection_and_watches_have_their_own_fifty_each() {
    let server = Server::start(Speaks::Http2).await;
    let client = server.client().await;
    let replies = futures::future::join_all((0..80).map(|_| client.get_raw("/api"))).await;
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    assert_eq!(server.connections(), 1);

    let mut watches = vec![];
    for _ in 0..120 {
        let mut watch = client.watch(&PODS, &WatchParams::default()).await.unwrap();
        watch.next().await.unwrap().unwrap();
        watches.push(watch);
    }
    assert_eq!(server.connections(), 1 + 3, "120 watches need three connections");
    drop(watches);
    client.watch(&PODS, &WatchParams::default()).await.unwrap();
    assert_eq!(server.connections(), 1 + 3, "room is used again");
}

#[tokio::test]
async fn a_lost_connection_is_replaced_and_what_was_on_it_is_known() {
    for speaks in [Speaks::Http2, Speaks::Http1] {
        let server = Server::start(speaks).await;
        let client = server.client().await;
        client.get_raw("/api").await.unwrap();
        let mut watch = client.watch(&PODS, &WatchParams::default()).await.unwrap();
        watch.next().await.unwrap().unwrap();

        let writer = client.clone();
        let write =
            tokio::spawn(async move { writer.create_dynamic(&PODS, "n", &serde_json::json!({})).await });
        server.hanging.subscribe().wait_for(|n| *n == 1).await.unwrap();
        server.kick.send_modify(|n| *n += 1);

        let lost = write.await.unwrap().unwrap_err();
        assert!(matches!(lost, Error::OutcomeUnknown { .. }), "{lost:?}");
        assert!(lost.outcome_unknown());
        let cut = watch.next().await.unwrap().unwrap_err();
        assert!(matches!(cut, Error::Unreachable { .. }), "{cut:?}");
        client.get_raw("/api").await.unwrap();
    }
}

#[tokio::test]
async fn a_second_lease_has_connections_that_its_fence_closes() {
    for speaks in [Speaks::Http2, Speaks::Http1] {
        let server = Server::start(speaks).await;
        let to = ConnectOptions { kubeconfig: Some(server.kubeconfig()), ..ConnectOptions::default() };
        let (main, second) = (Fence::new(FenceClock::Boot), Fence::new(FenceClock::Boot));
        let connection = connect_to_lead(&to, main.clone()).await.unwrap();
        let client = |connection: &Connection| Client::new(connection.transport(), ClientOptions::default());
        let (own, migrated) = (client(&connection), client(&connection.under(&second)));
        own.get_raw("/api").await.unwrap();
        migrated.get_raw("/api").await.unwrap();
        assert_eq!(server.connections(), 2, "what is buffered for one lease does not depend on the other");
        second.close();
        own.get_raw("/api").await.unwrap();
        assert!(migrated.get_raw("/api").await.is_err(), "nothing passes, whatever the client has checked");
        second.hold_until(second.now() + Duration::from_secs(60));
        migrated.get_raw("/api").await.unwrap();
        main.close();
        assert!(migrated.get_raw("/api").await.is_err(), "a process that has lost the main lease ends");
    }
}

#[tokio::test]
async fn a_server_that_sends_garbage_is_unreachable_and_causes_no_hot_loop() {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOODBYE: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const HALF_A_FRAME: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7];
    const TOO_LARGE: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 255, 255, 255, 1, 4, 0, 0, 0, 1];
    let table = [
        ("goodbyes only", GOODBYE),
        ("garbage", b"\xff\xfe not HTTP/2 at all \x00\x01\x02 and some more of it"),
        ("half a frame", HALF_A_FRAME),
        ("a frame of 16 MiB", TOO_LARGE),
        ("nothing but settings", SETTINGS),
        ("nothing", b""),
    ];
    for (case, bytes) in table {
        let server = Server::start(Speaks::Only(bytes)).await;
        let client = server.client().await;
        let error = client.get_raw("/api").await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{case}: {error:?}");
        assert!(error.to_string().contains("get /api"), "{case}: {error}");
        // A request is sent four times at most, and repeated three times at most if its response was lost.
        assert!(server.connections() <= 16, "{case}: {} connections", server.connections());
    }
}

#[tokio::test]
async fn silent_connections_cost_one_timeout() {
    for speaks in [Speaks::Http2, Speaks::Http1] {
        let server = Server::start(speaks).await;
        let connection = server.connect().await;
        let timeout = std::time::Duration::from_secs(5);
        let options = ClientOptions { qps: 0.0, timeout, ..ClientOptions::default() };
        let client = Client::new(connection.transport(), options);
        // Over HTTP/1.1 they leave several idle connections.
        let at_once = futures::future::join_all((0..5).map(|_| client.get_raw("/api"))).await;
        assert!(at_once.iter().all(Result::is_ok));
        let before = server.connections();

        server.freeze.send_modify(|n| *n += 1);
        let first = client.get_raw("/api").await.unwrap_err();
        assert!(matches!(first, Error::Deadline { .. }), "{first:?}");
        client.get_raw("/api").await.unwrap();
        assert_eq!(server.connections(), before + 1);
    }
}

#[tokio::test]
async fn a_connection_is_not_given_up_with_the_request_that_waited_for_it() {
    for speaks in [Speaks::Http2, Speaks::Http1] {
        let server = Server::start(speaks).await;
        let connection = server.connect().await;
        let with_timeout = |timeout| {
            let options = ClientOptions { qps: 0.0, timeout, ..ClientOptions::default() };
            Client::new(connection.transport(), options)
        };
        let (hasty, patient) =
            (with_timeout(Duration::from_millis(200)), with_timeout(Duration::from_secs(30)));
        let time_out = async || {
            server.shakes_hands.send_replace(false);
            for _ in 0..3 {
                let error = hasty.get_raw("/api").await.unwrap_err();
                assert!(matches!(error, Error::Deadline { .. }), "{error:?}");
            }
            server.shakes_hands.send_replace(true);
        };
        time_out().await;
        patient.get_raw("/api").await.unwrap();
        assert_eq!(server.accepted.load(Ordering::SeqCst), 1);
        if speaks == Speaks::Http1 {
            // Takes the connection. That the server speaks HTTP/1.1 is known now.
            let _watch = patient.watch(&PODS, &WatchParams::default()).await.unwrap();
            time_out().await;
            let mut watches = vec![];
            for _ in 0..3 {
                watches.push(patient.watch(&PODS, &WatchParams::default()).await.unwrap());
            }
            // The first may come before the connections are ready.
            let accepted = server.accepted.load(Ordering::SeqCst);
            assert!(accepted < 1 + 3 + 3, "{accepted}");
        }
    }
}

#[tokio::test]
async fn a_watch_on_a_silent_connection_fails() {
    let server = Server::start(Speaks::Http2).await;
    let client = server.client().await;
    let mut watch = client.watch(&PODS, &WatchParams::default()).await.unwrap();
    watch.next().await.unwrap().unwrap();
    server.freeze.send_modify(|n| *n += 1);
    let cut = watch.next().await.unwrap().unwrap_err();
    assert!(matches!(cut, Error::Unreachable { .. }), "{cut:?}");
    client.watch(&PODS, &WatchParams::default()).await.unwrap();
}

#[tokio::test]
async fn http1_connections_are_used_again() {
    let server = Server::start(Speaks::Http1).await;
    let client = server.client().await;
    for _ in 0..10 {
        client.get_raw("/api").await.unwrap();
    }
    assert_eq!(server.connections(), 1);
    let replies = futures::future::join_all((0..10).map(|_| client.get_raw("/api"))).await;
    assert!(replies.iter().all(Result::is_ok));
    assert!(server.connections() <= 10, "{}", server.connections());
}

#[tokio::test]
async fn over_http1_a_request_beyond_the_limit_opens_no_connection_before_its_turn() {
    const LIMIT: usize = 256;
    let server = Server::start(Speaks::Http1).await;
    let connection = server.connect().await;
    let client = Client::new(connection.transport(), ClientOptions { qps: 0.0, ..ClientOptions::default() });
    let mut watches = vec![];
    for _ in 0..LIMIT {
        watches.push(client.watch(&PODS, &WatchParams::default()).await.unwrap());
    }
    assert_eq!(server.connections(), LIMIT);
    let params = WatchParams::default();
    let next = client.watch(&PODS, &params);
    tokio::pin!(next);
    // A slow machine makes this pass too easily, never fail.
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut next).await.is_err());
    assert_eq!(server.connections(), LIMIT);
    watches.pop();
    next.await.unwrap();
    assert_eq!(server.connections(), LIMIT + 1);
}

/// A slot is taken for as long as a watch lasts.
#[tokio::test]
async fn over_http1_there_are_as_many_watches_as_a_cluster_has_resources() {
    let server = Server::start(Speaks::Http1).await;
    let client = server.client().await;
    let mut watches = vec![];
    for n in 0..300 {
        let params = WatchParams::default();
        let opened = tokio::time::timeout(Duration::from_secs(20), client.watch(&PODS, &params)).await;
        watches.push(opened.unwrap_or_else(|_| panic!("watch {n} waits for another to end")).unwrap());
    }
    assert_eq!(server.connections(), 300);
}

/// Streams beyond it would wait for each other: a watch for ever, a write until its deadline, with an unknown outcome.
#[tokio::test]
async fn a_connection_has_no_more_streams_than_the_server_allows() {
    let server = Server::start(Speaks::Http2Streams(10)).await;
    let client = server.client().await;
    let mut watches = vec![];
    for n in 0..35 {
        let params = WatchParams::default();
        let opened = tokio::time::timeout(Duration::from_secs(20), client.watch(&PODS, &params)).await;
        watches.push(opened.unwrap_or_else(|_| panic!("watch {n} waits for another to end")).unwrap());
    }
    assert_eq!(server.connections(), 4);
    // Requests that begin at once do not know the limit yet, and are told in time.
    let replies = futures::future::join_all((0..80).map(|_| client.get_raw("/api"))).await;
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    let body = serde_json::json!({});
    let mut writes: Vec<_> = (0..25).map(|_| Box::pin(client.create_dynamic(&PODS, "n", &body))).collect();
    let all = futures::future::join_all(writes.iter_mut());
    let arrived = async { server.hanging.subscribe().wait_for(|n| *n == 25).await.map(|n| *n) };
    tokio::select! {
        _ = all => panic!("there is no response"),
        arrived = tokio::time::timeout(Duration::from_secs(20), arrived) => {
            arrived.expect("all writes are sent").unwrap();
        }
    }
}

#[tokio::test]
async fn a_missing_server_is_unreachable_at_once() {
    let server = Server::start(Speaks::Http2).await;
    let file = server.kubeconfig();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let options =
        ConnectOptions { kubeconfig: Some(file), master: Some(format!("https://{free}")), context: None };
    let connection = connect(&options).await.unwrap();
    let client = Client::new(connection.transport(), ClientOptions { qps: 0.0, ..ClientOptions::default() });
    let body = serde_json::json!({});
    let writes = (0..50).map(|_| client.create_dynamic(&PODS, "n", &body));
    let errors = futures::future::join_all(writes).await;
    for error in errors {
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }) && !error.outcome_unknown(), "{error:?}");
    }
}

#[tokio::test]
async fn a_certificate_of_another_server_is_refused() {
    let (server, other) = (Server::start(Speaks::Http2).await, Server::start(Speaks::Http2).await);
    let master = Some(format!("https://{}", other.address));
    let options = ConnectOptions { kubeconfig: Some(server.kubeconfig()), master, context: None };
    let connection = connect(&options).await.unwrap();
    let client = Client::new(connection.transport(), ClientOptions::default());
    let error = client.get_raw("/api").await.unwrap_err();
    let Error::Unreachable { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("certificate"), "{source}");
    assert_eq!(other.connections(), 0);
}

/// A proxy that understands CONNECT and counts.
async fn proxy() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tunnels = Arc::new(AtomicUsize::new(0));
    let counter = tunnels.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut client = tokio::io::BufReader::new(client);
            let mut first = String::new();
            client.read_line(&mut first).await.unwrap();
            let target = first.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
            let mut line = String::new();
            while client.read_line(&mut line).await.unwrap() > 2 {
                line.clear();
            }
            counter.fetch_add(1, Ordering::SeqCst);
            let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
            client.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    (address, tunnels)
}

#[tokio::test]
async fn a_kubeconfigs_proxy_is_used() {
    let server = Server::start(Speaks::Http2).await;
    let (proxy, tunnels) = proxy().await;
    let file = server.kubeconfig_with(&format!(", proxy-url: 'http://{proxy}'"));
    let connection =
        connect(&ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() }).await.unwrap();
    let client = Client::new(connection.transport(), ClientOptions::default());
    client.get_raw("/api").await.unwrap();
    client.get_raw("/api").await.unwrap();
    assert_eq!((tunnels.load(Ordering::SeqCst), server.connections()), (1, 1));
}
