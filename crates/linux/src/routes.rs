//! Routes to the pods of every node, in this machine's main table.

use std::net::IpAddr;
use std::sync::Arc;

use flyball_cloud::kit::{ConfigFile, Written};
use flyball_cloud::{CloudError, Route, Routes};
use ipnet::IpNet;
use parking_lot::Mutex;
use smol_str::{SmolStr, format_smolstr};
use tokio::task::spawn_blocking;

use crate::balancer::internal;
use crate::config::Config;
use crate::kernel::{Kernel, PodRoute};
use crate::plan::SeenAddress;

pub(crate) struct MainTable {
    file: Arc<ConfigFile<Config>>,
    kernel: Arc<dyn Kernel>,
    cluster_ranges: Vec<IpNet>,
    /// Held while a route is compared with the others and added.
    adding: Arc<Mutex<()>>,
}

impl Routes for MainTable {
    async fn list(&self, _: &str) -> Result<Vec<Route>, CloudError> {
        let routes = self.ask(|kernel| kernel.routes()).await?;
        let config = self.file.current();
        Ok(routes.iter().map(|route| shown(&config, route)).collect())
    }

    async fn create(&self, _: &str, _: &str, route: &Route) -> Result<(), CloudError> {
        let wanted = wanted(route).map_err(CloudError::failed)?;
        // Otherwise the route would be listed as one that leads nowhere, and deleted in the next round.
        if shown(&self.file.current(), &wanted).node != route.node {
            let via = wanted.via.map(|via| via.to_string()).unwrap_or_default();
            return Err(CloudError::failed(format!(
                "{via}, the internal address of node {}, is not an address of its machine in {}",
                route.node,
                self.file.path().display()
            )));
        }
        let (adding, config, ranges) =
            (self.adding.clone(), self.file.current(), self.cluster_ranges.clone());
        self.ask(move |kernel| {
            let _alone = adding.lock();
            let table = Neighbourhood {
                config: &config,
                ranges: &ranges,
                hosts: kernel.addresses()?,
                routes: kernel.routes()?,
            };
            match table.problem(&wanted) {
                Some(problem) => Err(std::io::Error::other(problem)),
                None => create(kernel, &wanted, &table.routes),
            }
        })
        .await
    }

    async fn delete(&self, _: &str, route: &Route) -> Result<(), CloudError> {
        let name = route.name.clone();
        self.ask(move |kernel| {
            let same = kernel.routes()?.into_iter().filter(|route| self::name(route) == name);
            same.into_iter().try_for_each(|route| kernel.delete_route(&route))
        })
        .await
    }
}

impl MainTable {
    pub(crate) fn new(
        file: Arc<ConfigFile<Config>>,
        kernel: Arc<dyn Kernel>,
        cluster_ranges: Vec<IpNet>,
    ) -> Self {
        Self { file, kernel, cluster_ranges, adding: Arc::default() }
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Kernel) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, CloudError> {
        let kernel = self.kernel.clone();
        let answer = spawn_blocking(move || question(&*kernel)).await.map_err(CloudError::failed)?;
        answer.map_err(CloudError::failed)
    }
}

/// What a new route is compared with. The range is what a kubelet may have written: it must not lead packets astray that are not
/// for pods, or for those of another node.
struct Neighbourhood<'a> {
    config: &'a Config,
    ranges: &'a [IpNet],
    hosts: Vec<SeenAddress>,
    routes: Vec<PodRoute>,
}

impl Neighbourhood<'_> {
    fn problem(&self, wanted: &PodRoute) -> Option<String> {
        let PodRoute { destination, .. } = wanted;
        if !self.ranges.iter().any(|range| range.contains(destination)) {
            let ranges: Vec<String> = self.ranges.iter().map(IpNet::to_string).collect();
            return Some(format!(
                "{destination} is not within --cluster-cidr, {}; the podCIDRs of its Node must be",
                ranges.join(",")
            ));
        }
        let machines = self.config.machines.iter().flat_map(|machines| &machines.0);
        let machine = machines.flat_map(|machine| machine.addresses.iter().map(|address| address.0));
        let mut taken = machine.chain(self.hosts.iter().map(|seen| seen.held.address));
        if let Some(address) = taken.find(|address| destination.contains(address)) {
            return Some(format!("{destination} contains {address}, which is an address of a machine"));
        }
        let overlaps = |route: &&PodRoute| {
            let other = route.destination;
            other != *destination && (other.contains(destination) || destination.contains(&other))
        };
        let other = self.routes.iter().find(overlaps)?;
        Some(format!("{destination} overlaps {}, which there is a route for", other.destination))
    }
}

/// Adds a route. A route of ours with another next hop is replaced; any other route to the destination is an error.
fn create(kernel: &dyn Kernel, wanted: &PodRoute, routes: &[PodRoute]) -> std::io::Result<()> {
    if routes.contains(wanted) {
        return Ok(());
    }
    for outdated in routes.iter().filter(|route| route.destination == wanted.destination) {
        kernel.delete_route(outdated)?;
    }
    kernel.add_route(wanted).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => std::io::Error::other(format!(
            "there is a route for {} in the main table that is not ours; delete it, or give the node another range",
            wanted.destination
        )),
        _ => error,
    })
}

/// The route in the kernel for a route of the controller: over the node's internal address of the same family.
fn wanted(route: &Route) -> Result<PodRoute, String> {
    let Route { destination, node, .. } = route;
    let destination: IpNet =
        destination.parse().map_err(|_| format!("{destination:?} is not a range such as 10.244.1.0/24"))?;
    let addresses = route.node_addresses.iter().flatten().map(|a| (&*a.type_, &*a.address));
    let is_v6 = destination.addr().is_ipv6();
    let via = internal(addresses).into_iter().find(|address| address.is_ipv6() == is_v6);
    let family = if is_v6 { "IPv6" } else { "IPv4" };
    let via = via
        .ok_or_else(|| format!("node {node} has no internal {family} address to reach {destination} over"))?;
    Ok(PodRoute { destination, via: Some(via) })
}

/// A route in the kernel as the controller sees it. The node of a next hop is known from the inventory.
fn shown(config: &Config, route: &PodRoute) -> Route {
    let machines = config.machines.iter().flat_map(|machines| &machines.0);
    let is_at = |via: IpAddr| move |address: &Written<IpAddr>| address.0 == via;
    let node = route.via.and_then(|via| {
        let mut machines = machines;
        machines.find(|machine| machine.addresses.iter().any(is_at(via))).map(|machine| machine.name.clone())
    });
    Route {
        name: name(route),
        node: node.unwrap_or_default(),
        node_addresses: None,
        destination: format_smolstr!("{}", route.destination),
        is_blackhole: route.via.is_none(),
    }
}

fn name(route: &PodRoute) -> SmolStr {
    match route.via {
        Some(via) => format_smolstr!("{} via {via}", route.destination),
        None => format_smolstr!("blackhole {}", route.destination),
    }
}
