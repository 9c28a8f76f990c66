//! Webhooks of an operator under test: the cluster's clock stands still until they answer, however long that takes.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use bytes::Bytes;
use flyball_apiserver::pki::Ca;
use flyball_apiserver::{Body, BoxError};
use flyball_testing::Cluster;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Long enough for the clock to run past a webhook's timeout, if it ran.
const SLOW: Duration = Duration::from_millis(50);

/// Answers on the runtime of the test: `/hang` never, everything else slowly, with consent.
async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.uri().path() == "/hang" {
        std::future::pending::<()>().await;
    }
    let bytes = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    tokio::time::sleep(SLOW).await;
    let consent = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    let body = Full::new(Bytes::from(consent.to_string())).map_err(|never| -> BoxError { match never {} });
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Starts the server; a configuration that asks it about ConfigMaps.
async fn serve() -> anyhow::Result<(JoinHandle<()>, impl Fn(&str) -> String)> {
    let ca = Ca::new("webhooks")?;
    let tls = flyball_apiserver::tls(&ca.server(&["127.0.0.1".to_owned()])?, None)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    let server = flyball_apiserver::serve(tower::service_fn(answer), listener, tls, std::future::pending());
    let bundle = base64::engine::general_purpose::STANDARD.encode(&ca.pair.cert);
    let configuration = move |path: &str| {
        let webhook = json!({
            "name": "maps.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1, "failurePolicy": "Fail",
            "clientConfig": {"url": format!("{url}/{path}"), "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        });
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "maps"}, "webhooks": [webhook],
        })
        .to_string()
    };
    Ok((tokio::spawn(server), configuration))
}

#[tokio::test]
async fn the_clock_stands_still_while_a_webhook_answers() -> anyhow::Result<()> {
    let (_serving, configuration) = serve().await?;
    let cluster = Cluster::start().await?;
    cluster.apply(&configuration("consent")).await?;
    cluster.settled().await?;
    for name in ["a", "b", "c"] {
        cluster.apply(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_webhook_that_never_answers_times_out() -> anyhow::Result<()> {
    let (_serving, configuration) = serve().await?;
    let cluster = Cluster::start().await?;
    cluster.apply(&configuration("hang")).await?;
    cluster.settled().await?;
    let refused = cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await;
    let text = format!("{:?}", refused.err().context("it was created")?);
    ensure!(text.contains("context deadline exceeded"), "{text}");
    Ok(())
}
