//! Changes etcd directly, without the API server, through its JSON gateway.

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// Compacts at the current revision, which removes all history.
pub(super) async fn compact(port: u16) -> anyhow::Result<()> {
    let range = call(port, "/v3/kv/range", json!({"key": "AA=="})).await?;
    let revision = range["header"]["revision"].as_str().context("etcd returned no revision")?.to_owned();
    call(port, "/v3/kv/compaction", json!({"revision": revision, "physical": true})).await?;
    Ok(())
}

pub(super) async fn delete(port: u16, key: &str) -> anyhow::Result<()> {
    let response = call(port, "/v3/kv/deleterange", json!({"key": BASE64.encode(key)})).await?;
    match response["deleted"].as_str() {
        Some("1") => Ok(()),
        _ => bail!("etcd has no key {key}"),
    }
}

async fn call(port: u16, path: &str, body: Value) -> anyhow::Result<Value> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = http::Request::post(format!("http://127.0.0.1:{port}{path}"))
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()))?;
    let response = client.request(request).await.with_context(|| format!("etcd request {path}"))?;
    let status = response.status();
    let bytes = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        bail!("etcd request {path}: {status}: {}", String::from_utf8_lossy(&bytes));
    }
    Ok(serde_json::from_slice(&bytes)?)
}
