//! WebSockets, for `exec`, `attach` and `portforward`: the handshake, and what goes over the connection then.

mod command;
mod forward;
mod frames;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, Response, StatusCode, header, request};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest;

use super::command::Command;
use super::respond::{self, Body, BoxError};
use super::spdy::Connect;
use crate::error::ApiError;
pub(crate) use forward::{channels, tunnel};

/// The GUID of RFC 6455 that a server appends to the client's key.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A client's request to upgrade to a WebSocket.
#[derive(Clone)]
pub(crate) struct Handshake {
    accept: HeaderValue,
    /// The protocols that the client offers.
    offered: Vec<String>,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// The upgrade request, if there is one.
    pub(crate) fn read(parts: &request::Parts) -> Option<Self> {
        let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        text(header::UPGRADE).filter(|wish| wish.eq_ignore_ascii_case("websocket"))?;
        let accept = answer_to(text(header::SEC_WEBSOCKET_KEY)?)?;
        let offered = parts.headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
        let offered = offered.iter().filter_map(|value| value.to_str().ok());
        let offered = offered.flat_map(|list| list.split(',')).map(|one| one.trim().to_owned()).collect();
        let upgrade = parts.extensions.get::<OnUpgrade>()?.clone();
        Some(Self { accept, offered, upgrade })
    }

    /// The first of our protocols that the client offers, too.
    fn choose(&self, ours: &[&'static str]) -> Result<&'static str, ApiError> {
        let chosen = ours.iter().find(|known| self.offered.iter().any(|offered| offered == *known));
        chosen.copied().ok_or_else(|| {
            let (offered, ours) = (self.offered.join(", "), ours.join(", "));
            ApiError::bad_request(format!(
                "the client offers the protocols [{offered}], the server has [{ours}]"
            ))
        })
    }

    /// Accepts the upgrade, and runs a command.
    pub(crate) fn run(self, command: Command) -> Result<Response<Body>, ApiError> {
        let protocol = self.choose(&command::PROTOCOLS)?;
        Ok(self.accept(protocol, |client| command::run(client, command)))
    }

    /// Accepts the upgrade, and forwards ports.
    pub(crate) fn forward(self, connect: Connect, ports: Vec<u16>) -> Result<Response<Body>, ApiError> {
        let protocol = self.choose(&[forward::TUNNEL, forward::CHANNELS])?;
        if protocol == forward::TUNNEL {
            return Ok(self.accept(protocol, |client| forward::tunnel(client, connect)));
        }
        if ports.is_empty() {
            return Err(ApiError::bad_request("query parameter \"port\" is required"));
        }
        Ok(self.accept(protocol, |client| forward::channels(client, connect, ports)))
    }

    fn accept<F>(
        self,
        protocol: &'static str,
        session: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
    ) -> Response<Body>
    where
        F: Future<Output = Result<(), BoxError>> + Send,
    {
        let Self { accept, upgrade, .. } = self;
        tokio::spawn(async move {
            let client = match upgrade.await {
                Ok(upgraded) => TokioIo::new(upgraded),
                Err(error) => return tracing::debug!(%error, "a connection did not become a WebSocket"),
            };
            if let Err(error) = session(client).await {
                tracing::debug!(error, "a WebSocket broke");
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

/// The value of `Sec-WebSocket-Accept`, RFC 6455 §4.2.2.
fn answer_to(key: &str) -> Option<HeaderValue> {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{MAGIC}").as_bytes());
    HeaderValue::from_str(&STANDARD.encode(hash)).ok()
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
