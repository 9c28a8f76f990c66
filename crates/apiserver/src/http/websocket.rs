//! WebSockets as far as `kubectl exec` and `attach` need them: the handshake, then a session that sends its messages and
//! closes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::respond::{self, Body};

/// The supported protocols of remote commands; in both, the first byte of a message is its channel.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// The GUID of RFC 6455 that a server appends to the client's key.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
/// Status 1000: normal closure.
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();
/// How long a client may take to close the connection after our close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The channel of a message of a remote command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Stdout = 1,
    Stderr = 2,
    /// How the command ended, as a `Status`.
    Error = 3,
}

/// A client's request to upgrade to a WebSocket.
#[derive(Clone)]
pub(crate) struct Handshake {
    accept: HeaderValue,
    protocol: &'static str,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// The upgrade request, if there is one that is supported.
    pub(crate) fn read(parts: &request::Parts) -> Option<Self> {
        let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        text(header::UPGRADE).filter(|wish| wish.eq_ignore_ascii_case("websocket"))?;
        let accept = answer_to(text(header::SEC_WEBSOCKET_KEY)?)?;
        let protocol = PROTOCOLS.into_iter().find(|known| offers(&parts.headers, known))?;
        let upgrade = parts.extensions.get::<OnUpgrade>()?.clone();
        Some(Self { accept, protocol, upgrade })
    }

    /// Accepts the upgrade: the client gets `messages`, then a close frame.
    pub(crate) fn say(self, messages: Vec<(Channel, String)>) -> Response<Body> {
        let Self { accept, protocol, upgrade } = self;
        tokio::spawn(async move {
            if let Err(error) = session(upgrade, &messages).await {
                tracing::debug!(%error, "the connection of a remote command broke");
            }
        });
        let mut response = Response::new(respond::full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        response
    }
}

fn offers(headers: &HeaderMap, protocol: &str) -> bool {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|v| v.to_str().ok());
    offered.flat_map(|list| list.split(',')).any(|one| one.trim() == protocol)
}

/// The value of `Sec-WebSocket-Accept`, RFC 6455 §4.2.2.
fn answer_to(key: &str) -> Option<HeaderValue> {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{MAGIC}").as_bytes());
    HeaderValue::from_str(&STANDARD.encode(hash)).ok()
}

async fn session(upgrade: OnUpgrade, messages: &[(Channel, String)]) -> Result<(), super::respond::BoxError> {
    let mut stream = TokioIo::new(upgrade.await?);
    for (channel, text) in messages {
        let mut payload = vec![*channel as u8];
        payload.extend_from_slice(text.as_bytes());
        stream.write_all(&frame(BINARY, &payload)).await?;
    }
    stream.write_all(&frame(CLOSE, &NORMAL)).await?;
    stream.flush().await?;
    // Further messages of the client (input, its close frame) are dropped.
    let hangs_up = async {
        let mut discarded = [0; 1024];
        while stream.read(&mut discarded).await? > 0 {}
        std::io::Result::Ok(())
    };
    match tokio::time::timeout(CLOSE_TIMEOUT, hangs_up).await {
        Ok(ended) => Ok(ended?),
        Err(_) => Ok(stream.shutdown().await?),
    }
}

/// One frame, unmasked, as frames of servers are.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ 0..=125), _) => frame.push(short),
        (_, Ok(medium)) => {
            frame.push(126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_answered_as_in_the_rfc() {
        let answer = answer_to("dGhlIHNhbXBsZSBub25jZQ==").map(|value| value.as_bytes().to_vec());
        assert_eq!(answer.as_deref(), Some(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".as_slice()));
    }

    #[test]
    fn frames_carry_their_length() {
        #[rustfmt::skip]
        let table: [(usize, &[u8]); 5] = [
            (0,      &[0x82, 0]),
            (125,    &[0x82, 125]),
            (126,    &[0x82, 126, 0, 126]),
            (65_535, &[0x82, 126, 255, 255]),
            (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ];
        for (length, head) in table {
            let frame = frame(BINARY, &vec![7; length]);
            assert_eq!((&frame[..head.len()], frame.len()), (head, head.len() + length), "{length} bytes");
        }
    }

    #[test]
    fn a_request_without_a_connection_to_take_over_is_no_handshake() {
        let request = http::Request::builder()
            .header("upgrade", "websocket")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("sec-websocket-protocol", "v5.channel.k8s.io")
            .body(())
            .map(http::Request::into_parts);
        assert!(request.is_ok_and(|(parts, ())| Handshake::read(&parts).is_none()));
    }
}
