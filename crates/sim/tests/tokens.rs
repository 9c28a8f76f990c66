//! Tokens that do not expire are accepted by the API server, whatever kind of key signs them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_sim::api::{Api, Call, Content};
use flyball_sim::cluster::{Cluster, Manager, Options, Unavailable};
use flyball_sim::golden::backend::Backend;
use flyball_sim::load::{self, Request, until};
use flyball_sim::ours::{self, Profile};
use http::Method;
use serde_json::{Value, json};

const CONTROLLER: &str = "serviceaccount-token-controller";
const PATIENCE: Duration = Duration::from_secs(60);

flyball_sim::on_both_backends! {
    a_token_is_who_it_says needs [super::CONTROLLER],
}

async fn a_token_is_who_it_says<B: Backend>(cluster: &mut B) -> anyhow::Result<()> {
    let api = cluster.api().clone();
    cluster.start_kcm(&[CONTROLLER.to_owned()], &[]).await?;
    make_account(&api).await?;
    let (name, _) = reviewed(&api, "token").await?;
    ensure!(name == format!("system:serviceaccount:{}:robot", load::NAMESPACE), "{name}");
    cluster.stop_kcm().await;
    Ok(())
}

#[tokio::test]
async fn the_api_server_accepts_tokens_of_every_kind_of_key() -> anyhow::Result<()> {
    let keys = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../controllers/identity/src/serviceaccount_token/tests/keys");
    let large = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../keys/testdata/rsa16384.key");
    let keys: Vec<(&str, String)> = ["rsa-pkcs1", "p256-sec1", "p384-sec1", "p521-sec1"]
        .into_iter()
        .map(|name| (name, keys.join(format!("{name}.pem"))))
        .chain([("rsa-16384", large)])
        .map(|(name, file)| (name, file.display().to_string()))
        .collect();
    let trusted = keys.iter().map(|(_, file)| format!("--service-account-key-file={file}")).collect();
    let cluster = match Cluster::real(Options { apiserver_flags: trusted, ..Options::default() }).await {
        Ok(cluster) => cluster,
        Err(Unavailable::Skip(missing)) => {
            missing.announce("the_api_server_accepts_tokens_of_every_kind_of_key");
            return Ok(());
        }
        Err(Unavailable::Broken(error)) => return Err(error),
    };
    let (api, program) = (cluster.api().await?, ours::binary(Profile::Debug)?);
    make_account(&api).await?;
    for (name, file) in &keys {
        let flags = [format!("--service-account-private-key-file={file}")];
        let controllers = [CONTROLLER.to_owned()];
        let manager =
            Manager { binary: &program, controllers: &controllers, leader_elect: false, flags: &flags };
        let mut process = cluster.start_manager(name, &manager)?;
        make_token(&api, name).await?;
        let (user, algorithm) = reviewed(&api, name).await?;
        ensure!(user == format!("system:serviceaccount:{}:robot", load::NAMESPACE), "{name}: {user}");
        let want = match name.split('-').next() {
            Some("rsa") => "RS256",
            Some("p256") => "ES256",
            Some("p384") => "ES384",
            _ => "ES512",
        };
        ensure!(algorithm == want, "{name}: {algorithm}");
        process.stop(Duration::from_secs(10)).await?;
    }
    Ok(())
}

async fn make_account(api: &Api) -> anyhow::Result<()> {
    load::create_namespace(api).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    load::send_all(api, [Request::create(load::path("v1", "serviceaccounts"), account)]).await?;
    make_token(api, "token").await
}

async fn make_token(api: &Api, name: &str) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": "robot"}},
    });
    Ok(load::send_all(api, [Request::create(load::path("v1", "secrets"), secret)]).await?)
}

/// Waits for a token; who the API server takes its bearer for, and how it is signed.
async fn reviewed(api: &Api, name: &str) -> anyhow::Result<(String, String)> {
    let path = format!("{}/{name}", load::path("v1", "secrets"));
    until("a token", PATIENCE, || async {
        let secret = api.get(&path).await?;
        Ok(secret["data"]["token"].is_null().then(|| "there is none".to_owned()))
    })
    .await?;
    let secret = api.get(&path).await?;
    let token = String::from_utf8(BASE64.decode(secret["data"]["token"].as_str().unwrap_or_default())?)?;
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let call =
        Call::new(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews").body(&review, Content::Json);
    let (_, answer) = api.send(call).await?;
    ensure!(answer["status"]["authenticated"] == true, "{name}: {}", answer["status"]);
    let header = token.split('.').next().unwrap_or_default();
    let header: Value =
        serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header)?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok((text(&answer["status"]["user"]["username"]), text(&header["alg"])))
}
