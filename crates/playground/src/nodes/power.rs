//! Switching simulated nodes off and on.

use flyball_api::node::Node;
use flyball_api::{Key, Resource as _};
use flyball_client::{Client, Error, ListParams, Patch};
use serde_json::json;

use super::node::{STOPPED, is_simulated};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
}

/// Why a node was not switched.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    #[error("there is no node {name:?}; there are: {}", names.join(", "))]
    Unknown { name: String, names: Vec<String> },
    #[error("{0} is not simulated, so it cannot be switched off or on here")]
    NotSimulated(String),
    #[error("the node could not be {what}")]
    Request {
        what: &'static str,
        #[source]
        source: Error,
    },
}

/// Switches a node off or on.
pub async fn switch(client: &Client, name: &str, power: Power) -> Result<(), SwitchError> {
    let request = |what| move |source| SwitchError::Request { what, source };
    let key = Key::cluster(name);
    let node = match client.get::<Node>(&key).await {
        Ok(node) => node,
        Err(error) if error.is_not_found() => {
            let nodes = client.list::<Node>(None, &ListParams::default()).await.map_err(request("found"))?;
            let mut names: Vec<String> =
                nodes.items.iter().map(|node| node.metadata.name.to_string()).collect();
            names.sort_unstable();
            return Err(SwitchError::Unknown { name: name.to_owned(), names });
        }
        Err(error) => return Err(request("read")(error)),
    };
    if !is_simulated(&node) {
        return Err(SwitchError::NotSimulated(name.to_owned()));
    }
    let value = if power == Power::Off { json!("true") } else { json!(null) };
    let patch = Patch::Merge(json!({"metadata": {"annotations": {STOPPED: value}}}));
    client.patch_dynamic(&Node::TYPE, &key, None, &patch).await.map_err(request("switched"))?;
    Ok(())
}
