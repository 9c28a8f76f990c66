//! Snapshots as a user has them: a running cluster is saved, changed, brought back, and started anew elsewhere.

#[path = "common/home.rs"]
mod home;

use std::os::unix::fs::PermissionsExt as _;

use anyhow::ensure;
use flyball_api::{Key, ResourceType};
use flyball_client::{Client, ClientOptions, ConnectOptions, connect};
use serde_json::json;

use home::Home;

const CONFIG_MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
const UP: [&str; 6] = ["up", "--detach", "--port", "0", "--nodes", "1"];

fn up(more: &[&'static str]) -> Vec<&'static str> {
    [&UP[..], more].concat()
}

async fn client(home: &Home, context: &str) -> anyhow::Result<Client> {
    let options = ConnectOptions {
        kubeconfig: Some(home.path(".kube/config")),
        context: Some(context.to_owned()),
        ..ConnectOptions::default()
    };
    let connection = connect(&options).await?;
    Ok(Client::with_watches(connection.transport(), connection.watch_transport(), ClientOptions::default()))
}

async fn create(client: &Client, name: &str) -> anyhow::Result<u64> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let created = client.create_dynamic(&CONFIG_MAPS, Some("default"), &object).await?;
    Ok(created["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse()?)
}

async fn exists(client: &Client, name: &str) -> anyhow::Result<bool> {
    match client.get_dynamic(&CONFIG_MAPS, &Key::new("default", name)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_saved_and_brought_back() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&up(&[]))?;
    let before = client(&home, "flyball-flyball").await?;
    create(&before, "first").await?;
    let said = home.flyball(&["snapshot", "save", "base"])?;
    ensure!(said.contains("The cluster \"flyball\" is saved in base ("), "{said}");
    ensure!(std::fs::metadata(home.path("base"))?.permissions().mode() & 0o777 == 0o600, "it holds keys");
    ensure!(home.fails(&["snapshot", "save", "base"])?.contains("base exists already; choose another name"));

    let last = create(&before, "second").await?;
    let said = home.flyball(&["snapshot", "restore", "base"])?;
    ensure!(said.contains("is what it was when base was written"), "{said}");
    let after = client(&home, "flyball-flyball").await?;
    ensure!(exists(&after, "first").await? && !exists(&after, "second").await?);
    ensure!(create(&after, "third").await? > last, "no version is given out again");
    ensure!(home.list()?[0]["state"] == "running");

    std::fs::write(home.path("other"), "no snapshot")?;
    std::fs::write(home.path("cut"), &std::fs::read(home.path("base"))?[..3000])?;
    for (file, why) in [
        ("other", "other cannot be used: this is not a file of `flyball snapshot save`"),
        ("cut", "cut cannot be used: it is damaged"),
        ("absent", "absent: No such file"),
    ] {
        let said = home.fails(&["snapshot", "restore", file])?;
        ensure!(said.contains(why), "{file}: {said}");
    }
    ensure!(exists(&after, "third").await?, "a file that cannot be used changes nothing");

    home.flyball(&up(&["--name", "copy", "--snapshot", "base", "--data-dir", "data"]))?;
    let copy = client(&home, "flyball-copy").await?;
    ensure!(exists(&copy, "first").await? && !exists(&copy, "third").await?);
    home.flyball(&["snapshot", "restore", "base", "--name", "copy"])?;
    home.flyball(&["down", "copy"])?;
    let refused = home.fails(&up(&["--name", "copy", "--snapshot", "base", "--data-dir", "data"]))?;
    ensure!(refused.contains("data holds a cluster already"), "{refused}");
    home.flyball(&up(&["--name", "copy", "--data-dir", "data"]))?;
    ensure!(exists(&client(&home, "flyball-copy").await?, "first").await?, "and is kept");
    Ok(())
}

#[test]
fn without_a_cluster_it_is_said_how_to_start_one() -> anyhow::Result<()> {
    let home = Home::new()?;
    let said = home.fails(&["snapshot", "save", "base"])?;
    ensure!(said.contains("no cluster runs: start one with `flyball up`"), "{said}");
    ensure!(!home.path("base").exists());
    Ok(())
}
