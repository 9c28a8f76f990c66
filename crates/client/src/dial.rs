//! Opens one connection to the API server: TCP, a proxy's tunnel where there is one, TLS, then HTTP/2 if the server
//! speaks it and HTTP/1.1 otherwise.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::http2::{self, PING_AFTER, PING_TIMEOUT};
use crate::transport::BoxError;

/// TCP, TLS and the first frames together.
const DIAL_TIMEOUT: Duration = Duration::from_secs(15);

/// A way to the server.
pub(crate) struct Dialer {
    url: http::Uri,
    tls_name: Option<ServerName<'static>>,
    proxy: Option<Intercept>,
}

/// An open connection.
pub(crate) enum Link {
    Http2(http2::Connection),
    Http1(http1::SendRequest<Full<Bytes>>),
}

impl Dialer {
    /// `tls_server_name` overrides the name that the server's certificate must carry.
    pub(crate) fn new(
        url: http::Uri,
        tls_server_name: Option<&str>,
        proxy: Option<http::Uri>,
    ) -> Result<Self, BoxError> {
        let host = url.host().unwrap_or_default();
        let tls_name = if url.scheme_str() == Some("https") {
            let name = tls_server_name.unwrap_or_else(|| host.trim_start_matches('[').trim_end_matches(']'));
            Some(
                ServerName::try_from(name.to_owned())
                    .map_err(|e| format!("TLS server name {name:?}: {e}"))?,
            )
        } else {
            None
        };
        let matcher = match proxy {
            Some(proxy) => Some(Matcher::builder().all(proxy.to_string()).build()),
            // As Go: the environment's proxies are not for talking to oneself.
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
        Ok(Self { url, tls_name, proxy })
    }

    pub(crate) fn url(&self) -> &http::Uri {
        &self.url
    }

    pub(crate) async fn dial(&self, tls: Arc<rustls::ClientConfig>) -> Result<Link, BoxError> {
        let dialled = tokio::time::timeout(DIAL_TIMEOUT, self.dial_unbounded(tls)).await;
        dialled.map_err(|_| BoxError::from(format!("{}: no connection within {DIAL_TIMEOUT:?}", self.url)))?
    }

    async fn dial_unbounded(&self, tls: Arc<rustls::ClientConfig>) -> Result<Link, BoxError> {
        let tcp = self.tcp().await?;
        let Some(name) = &self.tls_name else {
            return http1_link(TokioIo::new(tcp)).await;
        };
        let stream = TlsConnector::from(tls).connect(name.clone(), tcp).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if is_h2 {
            http2::Connection::open(stream).await.map(Link::Http2)
        } else {
            http1_link(TokioIo::new(stream)).await
        }
    }

    async fn tcp(&self) -> Result<TcpStream, BoxError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(PING_AFTER));
        connector.set_keepalive_interval(Some(PING_TIMEOUT));
        let io = match &self.proxy {
            None => connector.call(self.url.clone()).await?,
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), connector);
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                tunnel.call(self.url.clone()).await?
            }
        };
        Ok(io.into_inner())
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn http1_link<I>(io: I) -> Result<Link, BoxError>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new().handshake(io).await?;
    tokio::spawn(connection.map(|ended| {
        // Each request hears of its own failure, so the connection's end is only worth a debug line.
        if let Err(error) = ended {
            tracing::debug!(error = &error as &dyn std::error::Error, "connection to the API server ended");
        }
    }));
    Ok(Link::Http1(sender))
}
