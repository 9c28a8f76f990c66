//! Machines.

use std::collections::BTreeMap;
use std::future::Future;

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use smol_str::SmolStr;

use super::CloudError;

/// The machines of a cloud.
///
/// Each method is given a Node, as controllers cache it, and is to find its machine: by `spec.providerID` if that is
/// set, else by name or whatever else the Node says.
pub trait Instances: Send + Sync + 'static {
    /// Whether there is a machine, running or not. After `false` the Node is deleted; after an error, even
    /// [`CloudError::InstanceNotFound`], it stays and the cloud is asked again.
    fn exists(&self, node: &Node) -> impl Future<Output = Result<bool, CloudError>> + Send;

    /// Whether the machine is there but stopped. [`CloudError::NotImplemented`] counts as a no.
    fn is_shut_down(&self, node: &Node) -> impl Future<Output = Result<bool, CloudError>> + Send;

    /// What is known about the machine. `None` leaves the Node as it is, and nothing is asked again before the Node
    /// changes.
    fn metadata(&self, node: &Node) -> impl Future<Output = Result<Option<Metadata>, CloudError>> + Send;
}

/// What a cloud knows about a machine, and its Node should say. What is empty is not said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Names the machine for good, as `provider://machine`. A Node that has none is not initialised without it.
    pub provider_id: SmolStr,
    /// Its type, for the label `node.kubernetes.io/instance-type`.
    pub instance_type: SmolStr,
    /// Its addresses, the preferred one of each kind first.
    pub addresses: Vec<NodeAddress>,
    /// Its zone, for the label `topology.kubernetes.io/zone`.
    pub zone: SmolStr,
    /// Its region, for the label `topology.kubernetes.io/region`.
    pub region: SmolStr,
    /// Further labels, set when the Node is initialised. Keys of Kubernetes itself and keys that the Node has are
    /// left out.
    pub labels: BTreeMap<SmolStr, SmolStr>,
}
