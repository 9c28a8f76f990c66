//! `flyball up --cloud FILE --expose`: the machines of the file are the nodes, its load balancers answer, and ports are forwarded.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::deployment::Deployment;
use flyball_api::node::Node;
use flyball_api::{Key, Resource, Service};
use flyball_client::Client;
use flyball_playground::objects::Pod;
use serde_json::{Value, json};

use common::{Up, kubectl, wait};

const PATIENCE: Duration = Duration::from_secs(60);

/// Replaces the file in one step.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    Ok(std::fs::rename(new, file)?)
}

fn get(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /who HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_from_a_file_is_shown_whole() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cloud.yaml");
    // Of this process only, since others listen on loopback addresses, too.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let rest = format!("loadBalancers: {{addresses: [127.{}.{low}.0/28]}}\nroutes: []\n", 64 + high % 64);
    let a =
        "- {name: a, type: large, zone: z1, region: r1, addresses: [{type: InternalIP, address: 10.0.0.1}]}";
    write(&file, &format!("machines:\n{a}\n- {{name: b}}\n{rest}"))?;
    let shown = file.display().to_string();
    let up = Up::start(&[
        "--cloud",
        &shown,
        "--expose",
        "--",
        "--node-monitor-grace-period=4s",
        "--node-monitor-period=500ms",
    ])?;
    let client = up.client().await?;

    let complete = |node: &Value| {
        let labels = &node["metadata"]["labels"];
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        node["spec"]["providerID"] == "simulated://a"
            && labels["topology.kubernetes.io/zone"] == "z1"
            && node["status"]["addresses"][0]["address"] == "10.0.0.1"
            && node["spec"]["taints"].is_null()
            && conditions.iter().any(|condition| condition["reason"] == "RouteCreated")
    };
    wait(&client, &Node::TYPE, &Key::cluster("a"), complete).await?;

    client.create::<Deployment>("default", &web()).await?;
    let ports = json!([{"name": "http", "port": 8080, "targetPort": 80}]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports},
    });
    client.create::<Service>("default", &service).await?;
    let key = Key::new("default", "web");
    let ready = |deployment: &Value| deployment["status"]["readyReplicas"] == 2;
    wait(&client, &Deployment::TYPE, &key, ready).await?;
    let ingress = |service: &Value| service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string();
    let exposed = wait(&client, &Service::TYPE, &key, ingress).await?;
    let ip = exposed["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().context("an address")?;
    let address: SocketAddr = format!("{ip}:8080").parse()?;
    both_pods_answer(address).await?;
    forwards(&up, &client).await?;

    // A file that cannot be read changes nothing.
    write(&file, "machines: [")?;
    write(&file, &format!("machines:\n{a}\n- {{name: b, state: stopped}}\n{rest}"))?;
    let is_off = |node: &Value| {
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == "node.cloudprovider.kubernetes.io/shutdown")
    };
    wait(&client, &Node::TYPE, &Key::cluster("b"), is_off).await?;
    write(&file, &format!("machines:\n{a}\n- {{name: c}}\n{rest}"))?;
    wait(&client, &Node::TYPE, &Key::cluster("b"), Value::is_null).await?;
    let is_new = |node: &Value| node["spec"]["providerID"] == "simulated://c";
    wait(&client, &Node::TYPE, &Key::cluster("c"), is_new).await?;
    up.stop()
}

fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:1"}]},
            },
        },
    })
}

async fn both_pods_answer(address: SocketAddr) -> anyhow::Result<()> {
    let mut pods = std::collections::BTreeSet::new();
    let answered = async {
        while pods.len() < 2 {
            let answer = get(address).unwrap_or_default();
            let pod = answer
                .lines()
                .find(|line| line.starts_with("pod web-") && line.ends_with(" in namespace default"));
            match pod
                .filter(|_| answer.starts_with("HTTP/1.1 200 OK") && answer.contains("port 80, path /who"))
            {
                Some(pod) => drop(pods.insert(pod.to_owned())),
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let waited = tokio::time::timeout(PATIENCE, answered).await;
    waited.with_context(|| format!("not both pods answer on {address}: {:?}", get(address)))
}

/// With a stock kubectl, if there is one.
async fn forwards(up: &Up, client: &Client) -> anyhow::Result<()> {
    let Some(kubectl) = kubectl() else {
        println!("SKIPPED port-forward: no kubectl in KUBEBUILDER_ASSETS");
        return Ok(());
    };
    let pods = client.list::<Pod>(Some("default"), &flyball_client::ListParams::default()).await?;
    let name = pods.items[0].metadata.name.clone();
    let mut child = Command::new(kubectl)
        .arg("--kubeconfig")
        .arg(up.kubeconfig())
        .args(["port-forward", "--address", "127.0.0.1", &format!("pod/{name}"), ":80"])
        .stdout(Stdio::piped())
        .spawn()?;
    let forwarded = || {
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let first = lines.next().context("it said nothing")??;
        let port = first.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
        let address = format!("127.0.0.1:{}", port.with_context(|| first.clone())?).parse()?;
        for _ in 0..5 {
            let answer = get(address)?;
            ensure!(answer.contains(&format!("pod {name} in namespace default")), "{answer}");
        }
        anyhow::Ok(())
    };
    let outcome = tokio::task::block_in_place(forwarded);
    let _ = child.kill();
    let _ = child.wait();
    outcome
}

#[test]
fn a_wrong_file_is_named_with_its_line() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cloud.yaml");
    std::fs::write(&file, "machines:\n- name: a\n- name: a\n")?;
    let output = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["up", "--port", "0", "--no-kubeconfig", "--cloud"])
        .arg(&file)
        .env("FLYBALL_HOME", folder.path().join("home"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let want =
        format!("{}:3: machines[1]: there are two machines \"a\"; names and ids must differ", file.display());
    ensure!(output.status.code() == Some(1) && said.contains(&want) && said.lines().count() == 1, "{said}");
    Ok(())
}
