//! `flyball node`: lists the simulated nodes, switches them off and on.

use anyhow::bail;
use flyball_api::node::Node;
use flyball_api::{Key, topology};
use flyball_client::{Client, ListParams, Patch};
use flyball_playground::nodes::node::{STOPPED, is_simulated, is_stopped};
use serde_json::json;

use crate::args;
use crate::ask;
use crate::lines::say;

pub(crate) async fn run(args: &args::Node) -> anyhow::Result<()> {
    let client = ask::client(&args.target).await?;
    match &args.action {
        args::NodeAction::List => list(&client).await,
        args::NodeAction::Stop { name } => {
            switch(&client, name, Power::Off).await?;
            say!("{name} is off: it sends no heartbeats. Soon it is NotReady, and its pods are evicted.");
            Ok(())
        }
        args::NodeAction::Start { name } => {
            switch(&client, name, Power::On).await?;
            say!("{name} is on again.");
            Ok(())
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    Off,
}

async fn list(client: &Client) -> anyhow::Result<()> {
    let mut nodes = client.list::<Node>(None, &ListParams::default()).await?.items;
    nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    say!("{:<20} {:<6} {:<10} ZONE", "NAME", "POWER", "READY");
    for node in nodes.iter().filter(|node| is_simulated(node)) {
        let power = if is_stopped(node) { "off" } else { "on" };
        let ready = node.condition("Ready").map_or("Unknown", |condition| condition.status.as_str());
        let zone = node.metadata.labels.get(topology::ZONE).unwrap_or_default();
        say!("{:<20} {power:<6} {ready:<10} {zone}", node.metadata.name);
    }
    Ok(())
}

/// Switches a node off or on.
pub(crate) async fn switch(client: &Client, name: &str, power: Power) -> anyhow::Result<()> {
    let key = Key::cluster(name);
    let node = match client.get::<Node>(&key).await {
        Ok(node) => node,
        Err(error) if error.is_not_found() => {
            let nodes = client.list::<Node>(None, &ListParams::default()).await?.items;
            let mut names: Vec<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
            names.sort_unstable();
            bail!("there is no node {name:?}; there are: {}", names.join(", "));
        }
        Err(error) => return Err(error.into()),
    };
    if !is_simulated(&node) {
        bail!("{name} is not simulated, so it cannot be switched off or on here");
    }
    let value = if power == Power::Off { json!("true") } else { json!(null) };
    let patch = Patch::Merge(json!({"metadata": {"annotations": {STOPPED: value}}}));
    client.patch::<Node>(&key, None, &patch).await?;
    Ok(())
}
