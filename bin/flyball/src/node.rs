//! `flyball node`: lists the simulated nodes, switches them off and on.

use flyball_api::node::Node;
use flyball_api::topology;
use flyball_client::{Client, ListParams};
use flyball_playground::nodes::node::{is_simulated, is_stopped};
use flyball_playground::nodes::power::{Power, switch};

use crate::args;
use crate::ask;
use crate::lines::say;

pub(crate) async fn run(args: &args::Node) -> anyhow::Result<()> {
    let client = ask::client(&args.target).await?;
    match &args.action {
        args::NodeAction::List => list(&client).await,
        args::NodeAction::Stop { node } => {
            switch(&client, node, Power::Off).await?;
            say!("{node} is off: it sends no heartbeats. Soon it is NotReady, and its pods are evicted.");
            Ok(())
        }
        args::NodeAction::Start { node } => {
            switch(&client, node, Power::On).await?;
            say!("{node} is on again.");
            Ok(())
        }
    }
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
