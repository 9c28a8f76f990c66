//! The live page of the manager: behind the authorization of its path, with the caches of the controllers, and explained under the
//! manager's own permissions.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use flyball_api::ResourceType;
use flyball_client::{Client, ConnectOptions, Connection, connect};
use flyball_playground::cluster::{Cluster, Options, Port};
use flyball_playground::nodes;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde::Deserialize as _;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);
const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);
const ACCOUNTS: ResourceType = ResourceType::new("", "v1", "serviceaccounts", "ServiceAccount", true);
const BINDINGS: ResourceType =
    ResourceType::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false);
const HIDDEN: &str = "hunter2";

struct Manager(Child);

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster without controllers, as a manager sees it that is given its kubeconfig.
async fn cluster() -> anyhow::Result<Cluster> {
    let options = Options {
        port: Some(Port::Exactly(0)),
        nodes: nodes::Options { count: 1, ..nodes::Options::default() },
        // One that does not matter, since a list without any runs all.
        controllers: vec!["bootstrap-signer-controller".to_owned()],
        ..Options::default()
    };
    Ok(Cluster::start(options).await?)
}

/// A kubeconfig as kubeadm writes it: with the role of upstream's manager, which may list everything and get little.
async fn kubeconfig(folder: &Path, cluster: &Cluster) -> anyhow::Result<PathBuf> {
    let (client, name) = (cluster.admin(), "the-manager");
    let token = token(&client, name).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kube-controller-manager"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}],
    });
    client.create_dynamic(&BINDINGS, None, &binding).await?;
    let port = cluster.address().context("it does not serve")?.port();
    write(folder, port, &token)
}

fn start(kubeconfig: &Path) -> anyhow::Result<(Manager, u16)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let file = kubeconfig.display();
    let child = Command::new(env!("CARGO_BIN_EXE_kube-controller-manager"))
        .args(
            ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
                .map(|flag| format!("--{flag}={file}")),
        )
        .args(["--bind-address=127.0.0.1", "--authentication-tolerate-lookup-failure=true"])
        .arg("--use-service-account-credentials=true")
        .arg(format!("--secure-port={port}"))
        .stderr(Stdio::null())
        .spawn()?;
    Ok((Manager(child), port))
}

/// Writes a kubeconfig for a port of this machine.
fn write(folder: &Path, port: u16, token: &str) -> anyhow::Result<PathBuf> {
    let file = folder.join(format!("{port}-{}.conf", token.len()));
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "a", "user": {"token": token}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    std::fs::write(&file, config.to_string())?;
    Ok(file)
}

/// The manager, as the user of a token sees it.
async fn manager(folder: &Path, port: u16, token: &str) -> anyhow::Result<Connection> {
    let file = write(folder, port, token)?;
    Ok(connect(&ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() }).await?)
}

async fn get(manager: &Connection, path: &str) -> anyhow::Result<(StatusCode, String)> {
    let response = manager.transport().send(Request::get(path).body(Bytes::new())?).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
    Ok((head.status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
}

/// A token of a service account, which may have a role.
async fn token(client: &Client, name: &str) -> anyhow::Result<String> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let made = client.create_dynamic(&ACCOUNTS, Some("kube-system"), &account).await;
    ensure!(made.as_ref().map_or_else(|error| error.code() == Some(409), |_| true), "{made:?}");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let key = flyball_api::Key::new("kube-system", name);
    let made: Value = client.create_subresource(&ACCOUNTS, &key, "token", &request).await?;
    Ok(made["status"]["token"].as_str().context("no token")?.to_owned())
}

/// Applies deploy/rbac.yaml.
async fn grant(client: &Client) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac.yaml"))?;
    let discovery = client.discover().await?;
    for document in serde_yaml::Deserializer::from_str(&text) {
        let object = Value::deserialize(document)?;
        let kind = object["kind"].as_str().context("no kind")?;
        let resource = discovery.named(kind).with_context(|| format!("no kind {kind}"))?;
        client.create_dynamic(resource, object["metadata"]["namespace"].as_str(), &object).await?;
    }
    Ok(())
}

fn broken_deployment() -> Value {
    let container = json!({"name": "main", "image": "a", "env": [{"name": "PASSWORD", "value": HIDDEN}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cart"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "cart"}},
            "template": {
                "metadata": {"labels": {"app": "cart"}, "annotations": {"flyball.dev/fail": "image"}},
                "spec": {"containers": [container]},
            },
        },
    })
}

/// Reads the stream until a row of a pod says that it is broken.
async fn broken_pod(manager: &Connection) -> anyhow::Result<String> {
    let request = Request::get("/ui/stream").body(Bytes::new())?;
    let mut body = manager.watch_transport().send(request).await?.into_body();
    let mut seen = String::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| anyhow::anyhow!("{error}"))?;
        let text = String::from_utf8_lossy(&frame.into_data().unwrap_or_default()).into_owned();
        seen.push_str(&text);
        if seen.contains("ImagePullBackOff")
            && seen.contains("\"complete\":true")
            && seen.contains("replicaset-controller")
        {
            return Ok(seen);
        }
    }
    bail!("the stream ended: {seen}")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_sees_the_page_and_others_do_not() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let folder = tempfile::tempdir()?;
    let client = cluster.admin();
    grant(&client).await?;
    let (_process, port) = start(&kubeconfig(folder.path(), &cluster).await?)?;
    let observer = manager(folder.path(), port, &token(&client, "flyball-observer").await?).await?;
    let begun = Instant::now();
    while get(&observer, "/healthz").await.is_err() {
        ensure!(begun.elapsed() < TIMEOUT, "the manager does not serve");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let stranger = manager(folder.path(), port, &token(&client, "stranger-with-no-role").await?).await?;
    for path in ["/ui", "/ui/", "/ui/main.js", "/ui/stream", "/ui/why?kind=Node&name=node-1"] {
        let (status, said) = get(&stranger, path).await?;
        ensure!(status == StatusCode::FORBIDDEN && !said.contains("<html"), "{path}: {status} {said}");
    }
    let (status, said) = get(&observer, "/ui/").await?;
    ensure!(status == StatusCode::OK && said.contains("<title>Flyball</title>"), "{status} {said}");

    client.create_dynamic(&DEPLOYMENTS, Some("default"), &broken_deployment()).await?;
    let seen =
        tokio::time::timeout(TIMEOUT, broken_pod(&observer)).await.context("the fault is not shown")??;
    ensure!(!seen.contains(HIDDEN), "the value of an environment variable is sent");
    let (status, why) = get(&observer, "/ui/why?kind=Deployment&namespace=default&name=cart").await?;
    ensure!(
        status == StatusCode::OK && why.contains("cannot be pulled") && why.contains("replicaset-controller"),
        "{why}"
    );
    ensure!(!why.contains(HIDDEN), "{why}");
    // Without a body, which the manager would not wait for.
    let act = Request::post("/ui/act").body(Bytes::new())?;
    let refused = observer.transport().send(act).await?.status();
    ensure!(refused == StatusCode::FORBIDDEN, "the manager has buttons: {refused}");
    cluster.stop().await;
    Ok(())
}
