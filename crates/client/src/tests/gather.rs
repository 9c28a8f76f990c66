use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::http2::Connection;

/// Counts the writes that reach the transport.
struct Counted {
    io: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Answers each request with the length of its body.
async fn serve(io: DuplexStream) {
    let mut connection = h2::server::handshake(io).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let (mut body, mut length) = (request.into_body(), 0);
            while let Some(Ok(data)) = body.data().await {
                length += data.len();
                body.flow_control().release_capacity(data.len()).unwrap();
            }
            let answer = http::Response::builder().header("length", length).body(()).unwrap();
            respond.send_response(answer, true).unwrap();
        });
    }
}

async fn connect() -> (Connection, Arc<AtomicUsize>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    tokio::spawn(serve(far));
    let writes = Arc::new(AtomicUsize::new(0));
    let connection = Connection::open(Counted { io: near, writes: writes.clone() }).await.unwrap();
    (connection, writes)
}

async fn post(connection: &Connection, length: usize) -> usize {
    let request = http::Request::post("https://server/api").body(Bytes::from(vec![b'x'; length])).unwrap();
    let answer = connection.send(request).await.unwrap();
    answer.headers()["length"].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn requests_at_once_share_a_write() {
    let (connection, writes) = connect().await;
    // `h2` flushes after each frame of a kilobyte or more.
    let length = 1500;
    assert_eq!(post(&connection, length).await, length);
    let before = writes.load(Ordering::Relaxed);
    let answers = join_all((0..10).map(|_| post(&connection, length))).await;
    assert!(answers.iter().all(|answer| *answer == length), "{answers:?}");
    // One for the requests, and one to acknowledge what the server has sent meanwhile.
    let made = writes.load(Ordering::Relaxed) - before;
    assert!(made <= 3, "{made} writes for ten requests");
}

#[tokio::test]
async fn bodies_of_any_length_arrive() {
    let (connection, _) = connect().await;
    for length in [0, 1, FULL - 10, FULL, FULL + 1, 10 * FULL, 300_000] {
        assert_eq!(post(&connection, length).await, length);
    }
}

#[tokio::test]
async fn nothing_is_lost_if_the_peer_reads_slowly() {
    let (near, mut far) = tokio::io::duplex(7);
    let sent: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
    let expected = sent.clone();
    let writer = tokio::spawn(async move {
        let mut near = Gathered::new(near);
        near.write_all(&sent).await.unwrap();
        near.shutdown().await.unwrap();
    });
    let mut received = vec![];
    far.read_to_end(&mut received).await.unwrap();
    writer.await.unwrap();
    assert!(received == expected);
}

#[tokio::test]
async fn a_flush_writes_unless_held() {
    let (near, mut far) = tokio::io::duplex(1024);
    let mut near = Gathered::new(near);
    near.held.store(true, Ordering::Relaxed);
    near.write_all(b"ab").await.unwrap();
    near.flush().await.unwrap();
    near.held.store(false, Ordering::Relaxed);
    near.write_all(b"c").await.unwrap();
    near.flush().await.unwrap();
    drop(near);
    let mut received = vec![];
    far.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"abc");
}
