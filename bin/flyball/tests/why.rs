//! `flyball why` on the embedded cluster: faults are planted, and the first lines name them.

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use flyball_api::{Key, Resource as _};
use flyball_client::{Client, DeleteOptions, Patch};
use serde_json::{Value, json};

use common::Up;

const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until the second line of the answer begins as wanted.
async fn asks(up: &Up, words: &[&str], want: &str) -> anyhow::Result<String> {
    let begun = Instant::now();
    loop {
        let answer = up.flyball(words)?;
        if answer.lines().nth(1).is_some_and(|line| line.starts_with(want)) {
            return Ok(answer);
        }
        if begun.elapsed() > PATIENCE {
            bail!("{words:?} does not say {want:?}:\n{answer}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn deployment(name: &str, replicas: u32, pod: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}

async fn create(client: &Client, kind: &str, object: Value) -> anyhow::Result<()> {
    let resource = flyball_explain::kinds::known(kind).context("kind")?;
    let namespace = if resource.namespaced { "default" } else { "" };
    let mut object = object;
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(kind);
    client.create_dynamic(resource, namespace, &object).await.with_context(|| format!("create {kind}"))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_faults_are_named_in_the_first_lines() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let client = up.client().await?;
    let plain = || json!({"containers": [{"name": "c", "image": "nginx"}]});

    create(
        &client,
        "Deployment",
        deployment(
            "picky",
            1,
            json!({"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "nginx"}]}),
        ),
    )
    .await?;
    asks(&up, &["why", "deploy", "picky"], "Blocked: Pod picky-").await?;
    create(
        &client,
        "Deployment",
        deployment(
            "crash",
            1,
            json!({"containers": [{"name": "c", "image": "busybox", "command": ["false"]}]}),
        ),
    )
    .await?;
    let crash = asks(&up, &["why", "deploy/crash"], "Blocked: Pod crash-").await?;
    ensure!(crash.contains("keeps ending: exit code 1"), "{crash}");

    create(&client, "PersistentVolumeClaim", json!({"metadata": {"name": "data"}, "spec": {
        "storageClassName": "none", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})).await?;
    asks(&up, &["why-not", "bound", "pvc/data"], "Blocked: StorageClass none does not exist").await?;
    create(&client, "Service", json!({"metadata": {"name": "lost"}, "spec": {"selector": {"app": "nobody"}, "ports": [{"port": 80}]}})).await?;
    asks(&up, &["why", "svc", "lost"], "Blocked: its selector (app=nobody) matches no pod").await?;
    create(
        &client,
        "Job",
        json!({"metadata": {"name": "held"}, "spec": {"suspend": true, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}),
    )
    .await?;
    asks(&up, &["why-not", "started", "job/held"], "Blocked: it is suspended").await?;

    create(&client, "Deployment", deployment("web", 1, plain())).await?;
    asks(&up, &["why", "deploy", "web"], "Nothing keeps it from being as it should be.").await?;
    create(&client, "PodDisruptionBudget", json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}})).await?;
    asks(
        &up,
        &["why", "pdb/web"],
        "Blocked: no pod may be evicted: minAvailable 1 asks for 1 healthy pods of 1",
    )
    .await?;
    let key = Key::new("default", "web");
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    client.patch::<flyball_api::deployment::Deployment>(&key, None, &patch).await?;
    asks(&up, &["why", "deployments.apps/web"], "Blocked: it is scaled to 0 replicas").await?;

    let finalizer = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    client.patch::<flyball_api::deployment::Deployment>(&key, None, &finalizer).await?;
    client
        .delete_dynamic(&flyball_api::deployment::Deployment::TYPE, &key, &DeleteOptions::default())
        .await?;
    asks(&up, &["why-not", "deleted", "deploy/web"], "Blocked: it is being deleted").await?;

    create(&client, "ResourceQuota", json!({"metadata": {"name": "team"}, "spec": {"hard": {"pods": "2"}}}))
        .await?;
    asks(&up, &["why", "quota/team"], "Blocked: used up: pods 2 of 2").await?;
    create(&client, "Deployment", deployment("more", 2, plain())).await?;
    asks(&up, &["why", "deploy/more"], "Blocked: ReplicaSet more-").await?;

    let json: Value = serde_json::from_str(&up.flyball(&["why", "deploy/more", "-o", "json"])?)?;
    let first = json["findings"][0]["text"].as_str().unwrap_or_default();
    ensure!(first == "2 pods cannot be created: quota team allows 2 pods, 2 used", "{json:#}");
    up.flyball(&["node", "stop", "node-1"])?;
    asks(&up, &["why", "no", "node-1"], "Blocked: it is not ready: its kubelet has stopped reporting")
        .await?;
    let (code, said) = up.fails(&["why", "deploy/nothing"])?;
    ensure!(code == Some(1) && said.contains("Deployment default/nothing does not exist"), "{code:?} {said}");
    let (code, said) = up.fails(&["why-not", "happy", "deploy/web"])?;
    ensure!(code == Some(2) && said.contains("is none of scheduled, ready"), "{code:?} {said}");
    up.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_has_read_enough_is_no_error() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    // As `flyball why | head -1`, but nothing at all is read.
    let mut asked =
        up.command(&["why", "node", "node-1"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    drop(asked.stdout.take());
    let ended = asked.wait_with_output()?;
    let errors = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success() && errors.is_empty(), "{}: {errors}", ended.status);
    up.stop()
}
