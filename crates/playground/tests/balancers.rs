//! Services of type LoadBalancer in the playground: they get an address.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::{Key, Service};
use flyball_client::{Client, DeleteOptions};
use flyball_playground::cluster::{Cluster, Options};
use flyball_playground::nodes;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

async fn make(client: &Client, name: &str, class: Option<&str>) -> anyhow::Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerClass": class},
    });
    client.create::<Service>("default", &service).await.with_context(|| format!("make {name}"))?;
    Ok(())
}

async fn address(client: &Client, name: &str) -> anyhow::Result<String> {
    let shown = async {
        loop {
            let service = client.get::<Service>(&Key::new("default", name)).await?;
            match service.status.load_balancer.ingress.first() {
                Some(ingress) => return anyhow::Ok(ingress.ip.to_string()),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, shown).await.with_context(|| format!("{name} has no address"))?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_gets_an_address_unless_it_wants_somebody_elses() -> anyhow::Result<()> {
    let nodes = nodes::Options { count: 1, ..nodes::Options::default() };
    let controllers = vec!["service-lb-controller".to_owned()];
    let cluster = Cluster::start(Options { nodes, controllers, ..Options::default() }).await?;
    ensure!(cluster.controllers().running == ["serviceaccount-token-controller", "service-lb-controller"]);
    let client = cluster.admin();
    make(&client, "classed", Some("example.com/mine")).await?;
    make(&client, "web", None).await?;
    ensure!(address(&client, "web").await? == "192.0.2.1");
    make(&client, "api", None).await?;
    ensure!(address(&client, "api").await? == "192.0.2.2");
    let classed = client.get::<Service>(&Key::new("default", "classed")).await?;
    ensure!(classed.status.load_balancer.ingress.is_empty() && classed.metadata.finalizers.is_empty());
    client.delete::<Service>(&Key::new("default", "web"), &DeleteOptions::default()).await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_no_load_balancers_gets_none() -> anyhow::Result<()> {
    let controllers = vec!["*".to_owned(), "-service-lb-controller".to_owned()];
    let cluster = Cluster::start(Options { controllers, ..Options::default() }).await?;
    ensure!(!cluster.controllers().running.contains(&"service-lb-controller"));
    cluster.stop().await;
    Ok(())
}
