//! The trait of clouds whose network needs a route for the pods of each node.

use std::future::Future;

use flyball_api::node::NodeAddress;
use smol_str::SmolStr;

use super::CloudError;

/// The routes of a cloud's network. `cluster` is the value of `--cluster-name`.
pub trait Routes: Send + Sync + 'static {
    /// All routes that belong to the cluster.
    fn list(&self, cluster: &str) -> impl Future<Output = Result<Vec<Route>, CloudError>> + Send;

    /// Creates a route. The cloud chooses its name; `hint` is unique to the node.
    fn create(
        &self,
        cluster: &str,
        hint: &str,
        route: &Route,
    ) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// Deletes a route that was listed.
    fn delete(&self, cluster: &str, route: &Route) -> impl Future<Output = Result<(), CloudError>> + Send;
}

/// A route that sends packets for `destination` to `node`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Chosen by the cloud; ignored when a route is created.
    pub name: SmolStr,
    /// Empty if the cloud cannot determine the node.
    pub node: SmolStr,
    /// The addresses of that node when the route was created. If they are set, the route is replaced when the node's
    /// addresses change.
    pub node_addresses: Option<Vec<NodeAddress>>,
    /// The range of addresses that the route is for, as in `spec.podCIDRs`.
    pub destination: SmolStr,
    /// Whether packets are dropped because the machine no longer exists. Such routes are deleted.
    pub is_blackhole: bool,
}
