//! Parsers of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use std::sync::LazyLock;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::authn::token::Keys;
use crate::http::respond::BoxError;
use crate::http::spdy::{Connect, pod};
use crate::http::{body, protobuf, spdy, websocket};

static KEYS: LazyLock<Option<Keys>> = LazyLock::new(|| Keys::new(None).ok());

/// Whether this is an object in Kubernetes' protobuf envelope.
pub fn decode_protobuf(bytes: &[u8]) -> bool {
    protobuf::decode(bytes).is_ok()
}

/// A body in JSON, and the paths of its duplicate keys.
pub fn decode_json(bytes: &[u8]) -> Option<(Value, Vec<String>)> {
    body::object("application/json", &bytes.to_vec().into(), "").ok()
}

/// Whether a new key accepts the signature of this token.
pub fn opens(token: &str) -> bool {
    KEYS.as_ref().is_some_and(|keys| keys.open(token).is_some())
}

/// A connection on which a client sends this, and closes it: all that the client gets.
async fn conversation<F>(sent: &[u8], session: impl FnOnce(DuplexStream) -> F) -> Vec<u8>
where
    F: Future<Output = Result<(), BoxError>>,
{
    let (client, server) = tokio::io::duplex(64 << 10);
    let (mut from, mut to) = tokio::io::split(client);
    let mut answers = vec![];
    let client = async {
        // The server may have hung up.
        let _ = to.write_all(sent).await;
        let _ = to.shutdown().await;
        let _ = from.read_to_end(&mut answers).await;
    };
    let (_, ()) = tokio::join!(session(server), client);
    answers
}

async fn repeat(client: DuplexStream) -> std::io::Result<()> {
    let (mut from, mut to) = tokio::io::split(client);
    tokio::io::copy(&mut from, &mut to).await.map(drop)
}

/// Port 80 repeats what it is sent.
fn echo() -> Connect {
    pod(repeat)
}

/// `portforward` over SPDY.
pub async fn spdy(sent: &[u8]) -> Vec<u8> {
    conversation(sent, |server| spdy::session(server, echo())).await
}

/// The frame that opens stream 1 with these headers, which are compressed here.
pub fn spdy_opening(headers: &[u8]) -> Option<Vec<u8>> {
    spdy::opening(headers)
}

/// `portforward` over a WebSocket, in both protocols.
pub async fn websocket(sent: &[u8]) -> [Vec<u8>; 2] {
    let channels = conversation(sent, |server| websocket::channels(server, echo(), vec![80, 81])).await;
    [channels, conversation(sent, |server| websocket::tunnel(server, echo())).await]
}
