//! The load balancer that a Service asks for: its addresses, and whether the gateway has room for it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use flyball_api::{Node, Service};
use flyball_cloud::kit::{choose, shown};
use flyball_cloud::{CloudError, default_name};

use crate::balancer::{Balancer, Held};
use crate::config::LoadBalancers as Pools;

/// What all load balancers of a gateway may cost, in entries of the kernel's maps: some tens of megabytes, replaced in a second or two.
const MOST_ENTRIES: usize = 200_000;

/// What the allocation depends on.
pub(crate) struct View<'a> {
    pub(crate) pools: &'a Pools,
    /// All load balancers of the gateway, by name.
    pub(crate) balancers: &'a BTreeMap<String, Balancer>,
    /// The addresses that other load balancers, this machine or other machines have.
    pub(crate) taken: BTreeSet<IpAddr>,
}

/// The load balancer that a Service asks for. An existing one keeps its addresses while they are in the pools.
///
/// # Errors
/// Why there can be none.
pub(crate) fn allocate(
    view: &View<'_>,
    service: &Service,
    nodes: &[Arc<Node>],
) -> Result<Balancer, CloudError> {
    let View { pools, balancers, taken } = view;
    // Without addresses, to see what is asked for before any is taken.
    let mut balancer =
        Balancer::new(service, vec![], nodes, pools.preserve_client_addresses).map_err(CloudError::failed)?;
    let name = default_name(service);
    let mut wanted = service.clone();
    if let Some(present) = balancers.get(&name) {
        let addresses = present.addresses.clone();
        wanted.status.load_balancer = Balancer { addresses, ..balancer.clone() }.status();
    }
    let others = || balancers.iter().filter(|(other, _)| **other != name).map(|(_, balancer)| balancer);
    let of_others = others().flat_map(|balancer| balancer.addresses.iter().map(|held| held.address));
    let taken: BTreeSet<IpAddr> = of_others.chain(taken.iter().copied()).collect();
    let addresses = choose(&pools.ranges(), &wanted, &taken).map_err(CloudError::failed)?;
    let held = addresses
        .into_iter()
        .filter_map(|address| Some(Held { address, interface: pools.interface(address)?.clone() }));
    balancer.addresses = held.collect();
    let weight: usize = others().map(Balancer::weight).sum();
    if weight + balancer.weight() > MOST_ENTRIES {
        return Err(CloudError::failed(format!(
            "it needs {} entries in the gateway's maps, and its other load balancers have {weight} of at most \
             {MOST_ENTRIES}; Services with fewer ports or source ranges need fewer",
            balancer.weight()
        )));
    }
    Ok(balancer)
}

/// An address for which the network has to be probed first: it is new, so a machine that the file does not know may have it.
pub(crate) fn to_probe(
    service: &Service,
    present: Option<&Balancer>,
    new: &Balancer,
    probed: &BTreeSet<IpAddr>,
) -> Option<Held> {
    let known: BTreeSet<IpAddr> = shown(service).collect();
    let is_present = |held: &Held| present.is_some_and(|present| present.addresses.contains(held));
    let mut addresses = new.addresses.iter();
    let is_new =
        |held: &&Held| !(is_present(held) || known.contains(&held.address) || probed.contains(&held.address));
    addresses.find(is_new).cloned()
}
