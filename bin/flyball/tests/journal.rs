//! The journal of a playground: it outlives the process, `flyball why` reads it, and no secret is in it.

#[path = "common/home.rs"]
mod home;

use anyhow::ensure;
use flyball_api::ResourceType;
use flyball_client::{Client, ClientOptions, ConnectOptions, connect};
use serde_json::{Value, json};

use home::Home;

const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);
const SECRETS: ResourceType = ResourceType::new("", "v1", "secrets", "Secret", true);
const UP: [&str; 8] = ["up", "--detach", "--port", "0", "--nodes", "1", "--data-dir", "data"];
/// Must not be found anywhere in the journal.
const HIDDEN: &str = "hunter2";

async fn client(home: &Home) -> anyhow::Result<Client> {
    let options = ConnectOptions { kubeconfig: Some(home.path(".kube/config")), ..ConnectOptions::default() };
    let connection = connect(&options).await?;
    Ok(Client::with_watches(connection.transport(), connection.watch_transport(), ClientOptions::default()))
}

fn deployment(name: &str, container: &str) -> Value {
    let container = json!({"name": container, "image": "x", "env": [{"name": "PASSWORD", "value": HIDDEN}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_outlive_their_process_and_hold_no_secret() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&UP)?;
    let before = client(&home).await?;
    // One that a controller fills with a token, and one of a user.
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}},
    });
    let password = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"password": HIDDEN},
    });
    before.create_dynamic(&SECRETS, Some("default"), &token).await?;
    before.create_dynamic(&SECRETS, Some("default"), &password).await?;
    before.create_dynamic(&DEPLOYMENTS, Some("default"), &deployment("web", "c")).await?;
    home.flyball(&["clock", "+1m"])?;
    let token = before.get_dynamic(&SECRETS, &flyball_api::Key::new("default", "token")).await?;
    let token = token["data"]["token"].as_str().unwrap_or_default().to_owned();
    ensure!(token.len() > 100, "no token was made");
    let said = home.flyball(&["why", "deploy/web"])?;
    ensure!(said.contains("deployment-controller"), "{said}");
    home.flyball(&["down"])?;

    let kept = home.flyball(&["journal", "data/journal"])?;
    for part in [
        "deployment-controller: create ReplicaSet default/web-",
        "replicaset-controller: create Pod default/web-",
        "scheduler: ",
    ] {
        ensure!(kept.contains(part), "no {part:?} in {kept}");
    }
    let all = home.flyball(&["journal", "data/journal", "--format", "json"])?;
    ensure!(all.contains("\"token\"") && all.contains("Secret"), "the token's Secret was written: {all}");
    let start = &token[..40];
    for secret in [HIDDEN, start, "eyJ", "BEGIN", "aHVudGVyMg"] {
        ensure!(!all.contains(secret), "{secret} is in the journal");
    }
    let traces: Value =
        serde_json::from_str(&home.flyball(&["journal", "data/journal", "--format", "otlp"])?)?;
    ensure!(traces["resourceSpans"].as_array().is_some_and(|resources| resources.len() > 3), "{traces}");

    // A new process remembers what the old one did.
    home.flyball(&UP)?;
    let said = home.flyball(&["why", "deploy/web", "--limit", "200"])?;
    ensure!(said.contains("creates it: no ReplicaSet has the current template"), "{said}");
    home.flyball(&["down", "--purge"])?;
    ensure!(!home.path("data").exists(), "the journal was left behind");
    let said = home.fails(&["journal", "data/journal"])?;
    ensure!(said.contains("there is no folder data/journal"), "{said}");
    Ok(())
}
