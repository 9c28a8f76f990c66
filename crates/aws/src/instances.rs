//! Machines: EC2 instances.

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use flyball_cloud::{CloudError, Instances, Metadata};
use smol_str::{SmolStr, format_smolstr};

use crate::ec2::{Ec2, Instance, instance_id};

pub(crate) struct Machines {
    pub(crate) ec2: Ec2,
    pub(crate) region: SmolStr,
}

impl Instances for Machines {
    /// Only a machine that a provider ID of ours names can be gone: a Node without one may be somebody else's.
    async fn exists(&self, node: &Node) -> Result<bool, CloudError> {
        Ok(self.instance(node).await?.is_some_and(|instance| instance.state != "terminated"))
    }

    async fn is_shut_down(&self, node: &Node) -> Result<bool, CloudError> {
        let instance = self.instance(node).await?.ok_or(CloudError::InstanceNotFound)?;
        Ok(instance.state == "stopped")
    }

    async fn metadata(&self, node: &Node) -> Result<Option<Metadata>, CloudError> {
        let instance = self.instance(node).await?.ok_or(CloudError::InstanceNotFound)?;
        Ok(Some(metadata(&instance, &self.region)))
    }
}

impl Machines {
    /// The machine of a Node: by its provider ID, or else by its name. `None` if AWS does not know the one of the provider ID.
    async fn instance(&self, node: &Node) -> Result<Option<Instance>, CloudError> {
        let provider_id = &node.spec.provider_id;
        if provider_id.is_empty() {
            return named(&self.ec2, &node.metadata.name).await.map(Some);
        }
        let id = instance_id(provider_id).ok_or_else(|| {
            CloudError::failed(format!(
                "the provider ID {provider_id:?} of Node {:?} is not of the form aws:///eu-central-1a/i-0123456789abcdef0",
                node.metadata.name
            ))
        })?;
        Ok(self.ec2.instance(id).await?)
    }
}

/// The one machine whose Node has this name.
pub(crate) async fn named(ec2: &Ec2, node: &str) -> Result<Instance, CloudError> {
    let found = ec2.named(node).await?;
    let count = found.len();
    let only = found.into_iter().next().filter(|_| count == 1);
    only.ok_or_else(|| {
        CloudError::failed(format!(
            "{count} instances in {} belong to Node {node:?}, not one; `nodeNames` in the file of --cloud-config says what Nodes are called",
            ec2.vpc()
        ))
    })
}

fn metadata(instance: &Instance, region: &SmolStr) -> Metadata {
    let address = |kind: &'static str| {
        move |address: &SmolStr| NodeAddress { type_: kind.into(), address: address.clone() }
    };
    let one = |kind, text: &SmolStr| (!text.is_empty()).then(|| address(kind)(text));
    let addresses = one("InternalIP", &instance.private_ip)
        .into_iter()
        .chain(instance.ipv6.iter().map(address("InternalIP")))
        .chain(one("ExternalIP", &instance.public_ip))
        .chain(one("InternalDNS", &instance.private_dns))
        .chain(one("Hostname", &instance.private_dns))
        .chain(one("ExternalDNS", &instance.public_dns));
    Metadata {
        provider_id: format_smolstr!("aws:///{}/{}", instance.zone, instance.id),
        instance_type: instance.type_.clone(),
        addresses: addresses.collect(),
        zone: instance.zone.clone(),
        region: region.clone(),
        ..Metadata::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_the_addresses_that_its_machine_has() {
        let instance = Instance {
            id: "i-1".into(),
            type_: "m7g.large".into(),
            zone: "eu-central-1a".into(),
            private_dns: "ip-10-0-0-1.ec2.internal".into(),
            private_ip: "10.0.0.1".into(),
            ipv6: vec!["2001:db8::1".into()],
            ..Instance::default()
        };
        let found = metadata(&instance, &"eu-central-1".into());
        assert_eq!(found.provider_id, "aws:///eu-central-1a/i-1");
        let shown: Vec<String> =
            found.addresses.iter().map(|address| format!("{}={}", address.type_, address.address)).collect();
        assert_eq!(
            shown,
            [
                "InternalIP=10.0.0.1",
                "InternalIP=2001:db8::1",
                "InternalDNS=ip-10-0-0-1.ec2.internal",
                "Hostname=ip-10-0-0-1.ec2.internal"
            ]
        );
    }
}
