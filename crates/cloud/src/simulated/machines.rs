//! Simulated machines, from the configuration.

use flyball_api::Node;
use smol_str::format_smolstr;

use super::config::{Config, Machine, MachineState};
use super::{Call, NAME, Simulated};
use crate::provider::{CloudError, Instances, Metadata};

pub(super) struct Machines(pub(super) Simulated);

impl Instances for Machines {
    async fn exists(&self, node: &Node) -> Result<bool, CloudError> {
        self.0.answer(Call::InstanceExists, |state| Ok(find(&state.config, node).is_some()))
    }

    async fn is_shut_down(&self, node: &Node) -> Result<bool, CloudError> {
        let stopped = |machine: &Machine| machine.state == MachineState::Stopped;
        self.0.answer(Call::InstanceIsShutDown, |state| {
            find(&state.config, node).map(stopped).ok_or(CloudError::InstanceNotFound)
        })
    }

    async fn metadata(&self, node: &Node) -> Result<Option<Metadata>, CloudError> {
        self.0.answer(Call::InstanceMetadata, |state| {
            let machine = find(&state.config, node).ok_or(CloudError::InstanceNotFound)?;
            Ok(Some(Metadata {
                provider_id: format_smolstr!("{NAME}://{}", machine.id()),
                instance_type: machine.type_.clone(),
                addresses: machine.addresses.clone(),
                zone: machine.zone.clone(),
                region: machine.region.clone(),
                labels: machine.labels.clone(),
            }))
        })
    }
}

/// The machine of a Node: by its provider ID, or else by what its kubelet reports, or else by its name.
fn find<'a>(config: &'a Config, node: &Node) -> Option<&'a Machine> {
    let mut machines = config.machines.iter().flatten();
    let provider_id = node.spec.provider_id.as_str();
    match provider_id.is_empty() {
        true => {
            let reported = node.status.node_info.as_ref().map_or("", |info| &info.system_uuid);
            machines.find(|machine| match machine.system_uuid.as_str() {
                "" => machine.name == node.metadata.name,
                uuid => uuid == reported,
            })
        }
        false => {
            let id = provider_id.strip_prefix(NAME)?.strip_prefix("://")?;
            machines.find(|machine| machine.id() == id)
        }
    }
}
