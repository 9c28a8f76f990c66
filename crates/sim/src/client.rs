//! Clients of a test's API server, real or embedded. The benchmarks use these small clients and not ours, so that they share
//! no code with what they measure.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use kube::client::Body;
use serde_json::Value;

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer")]
pub struct NoAnswer(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Sends requests as one user. Paths are absolute (`/api/v1/…`).
pub trait ApiClient: Send + Sync + 'static {
    /// Sends one request and waits for the whole response, whatever its status.
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, NoAnswer>>;

    /// A number that changes with every write, if that is known without a request: a caller that gets the same number again
    /// need not read again.
    fn state(&self) -> Option<u64> {
        None
    }

    /// Opens a watch (a GET with `watch=1`); its events arrive as they happen, until the server ends it.
    fn watch(&self, path: &str) -> BoxFuture<'_, Result<BoxStream<'static, Value>, NoAnswer>>;
}

pub async fn get(client: &dyn ApiClient, path: &str) -> Result<http::Response<Bytes>, NoAnswer> {
    let request = http::Request::get(path).body(Bytes::new()).map_err(|e| NoAnswer(Box::new(e)))?;
    client.send(request).await
}

/// A server behind HTTPS, with a bearer token.
pub struct Tls {
    client: kube::Client,
}

impl Tls {
    /// `ca` is the PEM file of the authority that signed the server's certificate.
    pub fn new(server: &str, ca: &Path, token: &str) -> anyhow::Result<Self> {
        let mut config = kube::Config::new(server.parse().with_context(|| format!("parse {server}"))?);
        config.root_cert_file = Some(ca.to_owned());
        config.read_timeout = Some(Duration::from_secs(60));
        config.auth_info.token = Some(token.to_owned().into());
        config.disable_compression = true;
        config.default_retry = false; // a 429 is an answer: a budget allows no eviction
        let client = kube::Client::try_from(config).with_context(|| format!("make a client for {server}"))?;
        Ok(Self { client })
    }
}

impl ApiClient for Tls {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, NoAnswer>> {
        Box::pin(async move {
            let response =
                self.client.send(request.map(Body::from)).await.map_err(|e| NoAnswer(Box::new(e)))?;
            let (head, body) = response.into_parts();
            let bytes = body.collect_bytes().await.map_err(|e| NoAnswer(Box::new(e)))?;
            Ok(http::Response::from_parts(head, bytes))
        })
    }

    fn watch(&self, path: &str) -> BoxFuture<'_, Result<BoxStream<'static, Value>, NoAnswer>> {
        let request = http::Request::get(path).body(Vec::new());
        Box::pin(async move {
            let request = request.map_err(|e| NoAnswer(Box::new(e)))?;
            let lines = self.client.request_stream(request).await.map_err(|e| NoAnswer(Box::new(e)))?.lines();
            // A broken connection ends the watch, as the server does.
            let events =
                lines.map_err(drop).and_then(|line| async move { serde_json::from_str(&line).map_err(drop) });
            Ok(events
                .take_while(|event| std::future::ready(event.is_ok()))
                .filter_map(|e| async { e.ok() })
                .boxed())
        })
    }
}
