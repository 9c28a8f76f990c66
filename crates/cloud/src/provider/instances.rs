//! Machines.

use std::collections::BTreeMap;
use std::future::Future;

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use smol_str::SmolStr;

use super::CloudError;

/// The machines of a cloud.
///
/// Each method gets a Node from the cache of the controllers and has to find its machine: by `spec.providerID` if that is
/// set, else by name or other fields.
pub trait Instances: Send + Sync + 'static {
    /// Whether the machine exists, running or not. `false` deletes the Node. After an error, even
    /// [`CloudError::InstanceNotFound`], the Node stays and the call is retried.
    fn exists(&self, node: &Node) -> impl Future<Output = Result<bool, CloudError>> + Send;

    /// Whether the machine exists but is shut down. [`CloudError::NotImplemented`] counts as `false`.
    fn is_shut_down(&self, node: &Node) -> impl Future<Output = Result<bool, CloudError>> + Send;

    /// What is known about the machine. `None` leaves the Node as it is until it changes.
    fn metadata(&self, node: &Node) -> impl Future<Output = Result<Option<Metadata>, CloudError>> + Send;
}

/// The metadata of a machine. Empty fields are not written to its Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The permanent name of the machine, as `provider://machine`. A Node without one is not initialised unless it is set.
    pub provider_id: SmolStr,
    /// Its type, for the label `node.kubernetes.io/instance-type`.
    pub instance_type: SmolStr,
    /// Its addresses, the preferred one of each kind first.
    pub addresses: Vec<NodeAddress>,
    /// Its zone, for the label `topology.kubernetes.io/zone`.
    pub zone: SmolStr,
    /// Its region, for the label `topology.kubernetes.io/region`.
    pub region: SmolStr,
    /// Further labels, set when the Node is initialised. Keys of Kubernetes and keys that the Node has are
    /// ignored.
    pub labels: BTreeMap<SmolStr, SmolStr>,
}
