//! Routes.

use std::future::Future;

use flyball_api::node::NodeAddress;
use smol_str::SmolStr;

use super::CloudError;

/// The routes of a cloud's network. `cluster` is what `--cluster-name` says.
pub trait Routes: Send + Sync + 'static {
    /// All routes that belong to the cluster.
    fn list(&self, cluster: &str) -> impl Future<Output = Result<Vec<Route>, CloudError>> + Send;

    /// Makes a route; its name is the cloud's choice, for which `hint` is something unique to the node.
    fn create(
        &self,
        cluster: &str,
        hint: &str,
        route: &Route,
    ) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// Deletes a route that was listed.
    fn delete(&self, cluster: &str, route: &Route) -> impl Future<Output = Result<(), CloudError>> + Send;
}

/// What is meant for `destination` goes to `node`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// The cloud's name for it; of no meaning in a route that is to be made.
    pub name: SmolStr,
    /// The node that gets the packets; empty if the cloud cannot tell.
    pub node: SmolStr,
    /// The addresses of that node which the route was made with. A cloud that tells them has the route made anew when
    /// the node's addresses change; one that does not need this says `None`.
    pub node_addresses: Option<Vec<NodeAddress>>,
    /// The range of addresses that the route is for, as in `spec.podCIDRs`.
    pub destination: SmolStr,
    /// Whether packets go nowhere, as the machine behind the route is gone. Such routes are deleted.
    pub is_blackhole: bool,
}
