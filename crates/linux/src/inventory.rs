//! Machines from the file.

use std::net::IpAddr;
use std::sync::Arc;

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use flyball_cloud::kit::{ConfigFile, Written};
use flyball_cloud::{CloudError, Instances, Metadata};
use smol_str::{SmolStr, format_smolstr};

use crate::NAME;
use crate::config::{Config, Machine, State};
use crate::redfish::Controllers;

pub(crate) struct Inventory {
    pub(crate) file: Arc<ConfigFile<Config>>,
    pub(crate) controllers: Arc<Controllers>,
}

impl Instances for Inventory {
    /// `false` only for Nodes that were initialised from this inventory: others may belong to another provider.
    async fn exists(&self, node: &Node) -> Result<bool, CloudError> {
        match self.machine(node) {
            Some(_) => Ok(true),
            None if own_id(node).is_some() => Ok(false),
            None => Err(self.unknown(node)),
        }
    }

    async fn is_shut_down(&self, node: &Node) -> Result<bool, CloudError> {
        let machine = self.machine(node).ok_or_else(|| self.unknown(node))?;
        match (machine.state, &machine.redfish) {
            (State::Stopped, _) => Ok(true),
            (State::Running, None) => Ok(false),
            (State::Running, Some(redfish)) => self.controllers.is_off(&machine, redfish).await,
        }
    }

    async fn metadata(&self, node: &Node) -> Result<Option<Metadata>, CloudError> {
        let machine = self.machine(node).ok_or_else(|| self.unknown(node))?;
        let address = |kind: &'static str| {
            move |address: &Written<IpAddr>| NodeAddress {
                type_: kind.into(),
                address: format_smolstr!("{}", address.0),
            }
        };
        let internal = machine.addresses.iter().map(address("InternalIP"));
        let external = machine.external_addresses.iter().map(address("ExternalIP"));
        Ok(Some(Metadata {
            provider_id: format_smolstr!("{NAME}://{}", machine.id()),
            instance_type: machine.type_.clone(),
            addresses: internal.chain(external).collect(),
            zone: machine.zone.clone(),
            region: machine.region.clone(),
            labels: machine.labels.clone(),
        }))
    }
}

impl Inventory {
    /// The machine of a Node: by its provider ID, or else by what its kubelet reports, or else by its name.
    fn machine(&self, node: &Node) -> Option<Machine> {
        let config = self.file.current();
        let mut machines = config.machines.iter().flat_map(|machines| &machines.0);
        if !node.spec.provider_id.is_empty() {
            let id = own_id(node)?;
            return machines.find(|machine| machine.id() == id).cloned();
        }
        let reported: SmolStr = node
            .status
            .node_info
            .as_ref()
            .map_or_else(SmolStr::default, |info| info.system_uuid.as_str().into());
        let is_machine = |machine: &&Machine| match machine.system_uuid.as_str() {
            "" => machine.name == node.metadata.name,
            uuid => uuid.eq_ignore_ascii_case(&reported),
        };
        machines.find(is_machine).cloned()
    }

    fn unknown(&self, node: &Node) -> CloudError {
        CloudError::failed(format!(
            "there is no machine for Node {:?} (provider ID {:?}) in {}",
            node.metadata.name,
            node.spec.provider_id,
            self.file.path().display()
        ))
    }
}

/// The id of a machine of ours.
fn own_id(node: &Node) -> Option<&str> {
    node.spec.provider_id.strip_prefix(NAME)?.strip_prefix("://")
}
