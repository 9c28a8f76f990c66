//! Admission webhooks of a cloud, called by a real API server. Skipped without assets.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flyball_cloud::CLOUD_CONTROLLER_MANAGER;
use flyball_cloud::webhook::{AdmissionRequest, AdmissionResponse, Webhook, serve};
use flyball_runtime::Metrics;
use flyball_sim::api::{Api, Call, Content, Error, message};
use flyball_sim::cluster::Cluster;
use flyball_sim::load::until;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

async fn admit(request: AdmissionRequest) -> Result<AdmissionResponse, flyball_cloud::webhook::WebhookError> {
    if request.name.starts_with("refused") {
        return Ok(AdmissionResponse::refused("not this one"));
    }
    if request.name.starts_with("broken") {
        return Err("the cloud is away".into());
    }
    let label = format!("{}-by-{}", request.operation, text(&request.user_info["username"]));
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"admitted": label}}]);
    let warnings = vec!["mind the gap".to_owned()];
    Ok(AdmissionResponse { warnings, ..AdmissionResponse::patched(patch) })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn create(api: &Api, name: &str) -> Result<(u16, Value), Error> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    api.send(Call::new(Method::POST, CONFIG_MAPS).body(&object, Content::Json).tolerate(&[403, 500])).await
}

fn configuration(port: u16, ca: &[u8]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "cloud"},
        "webhooks": [{
            "name": "names.example.com",
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/names"), "caBundle": STANDARD.encode(ca)},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    })
}

#[tokio::test]
async fn a_real_server_calls_a_webhook_and_does_what_it_says() -> anyhow::Result<()> {
    Cluster::play("a_real_server_calls_a_webhook_and_does_what_it_says", real).await
}

async fn real(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let pki = cluster.dir().join("pki");
    let mut options = (CLOUD_CONTROLLER_MANAGER.defaults)();
    let serving = &mut options.webhook_serving;
    serving.bind_address = [127, 0, 0, 1].into();
    serving.port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().into();
    serving.cert_file = pki.join("apiserver.crt").display().to_string();
    serving.key_file = pki.join("apiserver.key").display().to_string();
    let metrics = Metrics::default();
    let listening = serve(&[Webhook::new("names", "/names", admit)], &options, &metrics)?;
    let listening = listening.context("nothing listens")?;
    let configuration = configuration(listening.address.port(), &std::fs::read(pki.join("ca.crt"))?);
    api.send(Call::new(Method::POST, CONFIGURATIONS).body(&configuration, Content::Json)).await?;

    // The server takes some time to apply the configuration.
    let attempts = std::cell::Cell::new(0);
    until("a refusal", Duration::from_secs(60), || async {
        attempts.set(attempts.get() + 1);
        let (code, answer) = create(&api, &format!("refused-{}", attempts.get())).await?;
        Ok((code != 403).then(|| answer.to_string()))
    })
    .await?;
    let (code, answer) = create(&api, "refused").await?;
    let want = "admission webhook \"names.example.com\" denied the request: not this one";
    ensure!((code, message(&answer).as_str()) == (403, want), "{code} {answer}");

    let (_, created) = create(&api, "patched").await?;
    ensure!(created["metadata"]["labels"]["admitted"] == "CREATE-by-admin", "{created}");

    let (code, answer) = create(&api, "broken").await?;
    ensure!(code == 500 && message(&answer).contains("failed calling webhook"), "{code} {answer}");
    let counted = r#"cloud_provider_webhook_request_total{code="500",webhook="names"} 1"#;
    ensure!(metrics.text().contains(counted), "{}", metrics.text());
    Ok(())
}
