//! Checks of machines.

use std::net::IpAddr;

use flyball_api::Node;

use super::{Report, World, ensure, settled};
use crate::Metadata;
use crate::provider::AnyInstances;

pub(super) async fn check(world: &World, instances: &dyn AnyInstances, report: &mut Report) {
    const NONE: &str = "the world has no such Node";
    let name = world.cloud.name();
    match world.running.is_empty() {
        true => report.skip("a running machine is found, by name and by provider ID", NONE),
        false => {
            let found = each(&world.running, async |node| running(name, instances, node).await).await;
            report.add("a running machine is found, by name and by provider ID", found);
        }
    }
    match world.stopped.is_empty() {
        true => report.skip("a stopped machine exists and is shut down", NONE),
        false => {
            let found = each(&world.stopped, async |node| {
                let exists = settled(|| instances.exists(node)).await?;
                ensure(exists, || "its Node would be deleted: it does not exist".to_owned())?;
                ensure(settled(|| instances.is_shut_down(node)).await?, || "it counts as running".to_owned())
            });
            report.add("a stopped machine exists and is shut down", found.await);
        }
    }
    match world.gone.is_empty() {
        true => report.skip("a machine that is gone does not exist", NONE),
        false => {
            let found = each(&world.gone, async |node| {
                ensure(!settled(|| instances.exists(node)).await?, || "it still exists".to_owned())
            });
            report.add("a machine that is gone does not exist", found.await);
        }
    }
}

async fn running(provider: &str, instances: &dyn AnyInstances, node: &Node) -> Result<(), String> {
    ensure(settled(|| instances.exists(node)).await?, || {
        "its Node would be deleted: it does not exist".to_owned()
    })?;
    match instances.is_shut_down(node).await {
        Ok(false) | Err(crate::CloudError::NotImplemented) => {}
        Ok(true) => return Err("it counts as shut down".to_owned()),
        Err(error) => return Err(super::failure(&error)),
    }
    let metadata = metadata(instances, node).await?;
    let id = &metadata.provider_id;
    let is_named = id.strip_prefix(provider).is_some_and(|rest| rest.starts_with("://") && rest.len() > 3);
    ensure(is_named, || format!("its provider ID must be {provider}:// and a name, not {id:?}"))?;
    for address in &metadata.addresses {
        let is_name = matches!(address.type_.as_str(), "Hostname" | "InternalDNS" | "ExternalDNS");
        let is_address = address.address.parse::<IpAddr>().is_ok();
        ensure(is_name || is_address, || format!("{:?} is not an address", address.address))?;
    }
    // After it is initialised, the provider ID is what counts.
    let mut initialised = node.clone();
    initialised.spec.provider_id = id.clone();
    initialised.metadata.name = "another-name".into();
    ensure(settled(|| instances.exists(&initialised)).await?, || {
        format!("{id} is not found by its provider ID")
    })?;
    let again = self::metadata(instances, &initialised).await?;
    ensure(again == metadata, || format!("by its provider ID it is {again:?}, by its name {metadata:?}"))
}

async fn metadata(instances: &dyn AnyInstances, node: &Node) -> Result<Metadata, String> {
    let metadata = settled(|| instances.metadata(node)).await?;
    metadata.ok_or_else(|| "it has no metadata".to_owned())
}

/// The first failure, with the name of its Node.
async fn each(nodes: &[Node], check: impl AsyncFn(&Node) -> Result<(), String>) -> Result<(), String> {
    for node in nodes {
        check(node).await.map_err(|why| format!("{}: {why}", node.metadata.name))?;
    }
    Ok(())
}
