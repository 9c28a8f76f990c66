//! Connections whose peer falls silent, in virtual time: both ends and the line between them are in this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::http2::Connection;
use crate::transport::TransportError;

/// Which directions of a line carry anything.
#[derive(Clone, Copy, PartialEq)]
struct Carries {
    to_server: bool,
    to_client: bool,
}

const ALL: Carries = Carries { to_server: true, to_client: true };
const NOTHING: Carries = Carries { to_server: false, to_client: false };

async fn carry(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    mut open: watch::Receiver<Carries>,
    is_open: fn(&Carries) -> bool,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if open.wait_for(is_open).await.is_err() || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// What the server does with a request.
#[derive(Clone, Copy)]
enum Answers {
    Never,
    AtOnce,
    /// With a chunk each second, for ever.
    WithoutEnd,
}

async fn serve(io: DuplexStream, answers: Answers) {
    let mut connection = h2::server::handshake(io).await.unwrap();
    while let Some(Ok((_request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            match answers {
                Answers::Never => std::future::pending().await,
                Answers::AtOnce => drop(respond.send_response(http::Response::new(()), true)),
                Answers::WithoutEnd => {
                    let mut body = respond.send_response(http::Response::new(()), false).unwrap();
                    while body.send_data(Bytes::from_static(b"x"), false).is_ok() {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        });
    }
}

async fn connect(answers: Answers) -> (Arc<Connection>, watch::Sender<Carries>) {
    let (ours, near) = tokio::io::duplex(64 * 1024);
    let (far, theirs) = tokio::io::duplex(64 * 1024);
    let (line, open) = watch::channel(ALL);
    let (from_client, to_client) = tokio::io::split(near);
    let (from_server, to_server) = tokio::io::split(far);
    tokio::spawn(carry(from_client, to_server, open.clone(), |c| c.to_server));
    tokio::spawn(carry(from_server, to_client, open, |c| c.to_client));
    tokio::spawn(serve(theirs, answers));
    (Arc::new(Connection::open(ours).await.unwrap()), line)
}

fn request() -> http::Request<Bytes> {
    http::Request::get("https://server/api").body(Bytes::new()).unwrap()
}

async fn closes_within(connection: &Connection, limit: u64) -> bool {
    let start = Instant::now();
    while !connection.is_closed() && start.elapsed() < Duration::from_secs(limit) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    connection.is_closed()
}

#[tokio::test(start_paused = true)]
async fn requests_on_a_silent_connection_fail_within_half_a_minute() {
    let (connection, line) = connect(Answers::AtOnce).await;
    connection.send(request()).await.unwrap();
    line.send_replace(NOTHING);
    let start = Instant::now();
    let lost = connection.send(request()).await.map(|_| ()).unwrap_err();
    let TransportError::Silent { sent, .. } = lost else { panic!("{lost:?}") };
    assert_eq!(sent, start, "the server may not know that it is over");
    assert!(start.elapsed() <= Duration::from_secs(26), "{:?}", start.elapsed());
    assert!(connection.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_a_connection_has_not_fallen_silent() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let server = tokio::spawn(serve(theirs, Answers::Never));
    let connection = Connection::open(ours).await.unwrap();
    let request = connection.send(request());
    tokio::pin!(request);
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut request).await.is_err());
    server.abort();
    let lost = request.await.map(|_| ()).unwrap_err();
    assert!(matches!(lost, TransportError::Lost(_)), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn new_requests_avoid_a_silent_connection_long_before_it_is_closed() {
    let (connection, line) = connect(Answers::AtOnce).await;
    connection.send(request()).await.unwrap();
    line.send_replace(NOTHING);
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(connection.pulse().is_suspect() && !connection.is_closed());
    line.send_replace(ALL);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!connection.pulse().is_suspect(), "it has answered");
    connection.send(request()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_request_without_a_response_makes_a_connection_suspect() {
    let (connection, line) = connect(Answers::AtOnce).await;
    connection.send(request()).await.unwrap();
    line.send_replace(NOTHING);
    let mark = connection.pulse().mark();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!connection.pulse().is_suspect(), "no request was sent yet");
    connection.pulse().given_up(&mark);
    assert!(connection.pulse().is_suspect());
    assert!(closes_within(&connection, 16).await);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cancelled_early_does_not_make_a_connection_suspect() {
    let (connection, _line) = connect(Answers::Never).await;
    let mark = connection.pulse().mark();
    tokio::time::sleep(Duration::from_millis(900)).await;
    connection.pulse().given_up(&mark);
    assert!(!connection.pulse().is_suspect());
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_is_not_a_dead_one() {
    let (connection, _line) = connect(Answers::Never).await;
    for _ in 0..10 {
        let gave_up = tokio::time::timeout(Duration::from_secs(30), connection.send(request())).await;
        assert!(gave_up.is_err());
        assert!(!connection.pulse().is_suspect() && !connection.is_closed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_but_does_not_receive_is_given_up_too() {
    let (connection, line) = connect(Answers::WithoutEnd).await;
    let mut body = connection.send(request()).await.unwrap().into_body();
    let reader = tokio::spawn(async move { while let Some(Ok(_)) = body.frame().await {} });
    line.send_replace(Carries { to_server: false, to_client: true });
    let mark = connection.pulse().mark();
    tokio::time::sleep(Duration::from_secs(5)).await;
    connection.pulse().given_up(&mark);
    assert!(!connection.pulse().is_suspect(), "data was received");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(connection.pulse().is_suspect(), "but no answer to a ping");
    assert!(closes_within(&connection, 80).await);
    reader.await.unwrap();
}
