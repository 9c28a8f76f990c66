//! The canonical form of a set of addresses and ports in an Endpoints object, and its truncation.

use std::collections::BTreeMap;

use flyball_api::endpoints::{EndpointAddress, EndpointPort, EndpointSubset};
use flyball_api::object_reference::SharedReference;
use smol_str::SmolStr;

/// The most addresses in one Endpoints object.
pub const CAPACITY: usize = 1000;

/// One address with one of its ports; no port for a Service without ports.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub address: EndpointAddress,
    pub ready: bool,
    pub port: Option<EndpointPort>,
}

/// Address and uid of the pod: pods on the host network share the address of their node.
type Identity = (SmolStr, SmolStr);

fn identity(address: &EndpointAddress) -> Identity {
    let uid = address.target_ref.as_ref().map(|target| target.uid.to_smol_str());
    (address.ip.clone(), uid.unwrap_or_default())
}

/// Groups offers so that each subset has every port of every one of its addresses, and sorts everything. An address
/// that is both ready and not is not ready.
pub fn pack(offers: impl IntoIterator<Item = Offer>) -> Vec<EndpointSubset> {
    let mut addresses: BTreeMap<Identity, EndpointAddress> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<EndpointPort>, BTreeMap<Identity, bool>> = BTreeMap::new();
    for Offer { address, ready, port } in offers {
        let identity = identity(&address);
        let held = by_port.entry(port).or_default().entry(identity.clone()).or_insert(true);
        *held &= ready;
        addresses.entry(identity).or_insert(address);
    }
    let mut groups: BTreeMap<BTreeMap<Identity, bool>, Vec<EndpointPort>> = BTreeMap::new();
    for (port, members) in by_port {
        groups.entry(members).or_default().extend(port);
    }
    let subset = |(members, ports): (BTreeMap<Identity, bool>, Vec<EndpointPort>)| {
        let of = |wanted: bool| {
            let chosen = members.iter().filter(|(_, ready)| **ready == wanted);
            chosen.filter_map(|(identity, _)| addresses.get(identity).cloned()).collect()
        };
        EndpointSubset { addresses: of(true), not_ready_addresses: of(false), ports }
    };
    groups.into_iter().map(subset).collect()
}

/// The offers that subsets consist of, which another client may have written.
pub fn unpack(subsets: &[EndpointSubset]) -> Vec<Offer> {
    let mut offers = vec![];
    for subset in subsets {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
        for (address, ready) in ready.chain(not_ready) {
            let address = address.clone();
            if subset.ports.is_empty() {
                offers.push(Offer { address, ready, port: None });
            } else {
                let offer =
                    |port: &EndpointPort| Offer { address: address.clone(), ready, port: Some(port.clone()) };
                offers.extend(subset.ports.iter().map(offer));
            }
        }
    }
    offers
}

impl Offer {
    /// Without the resourceVersion of the pod, which old releases wrote.
    pub fn unversioned(mut self) -> Self {
        let target_ref = &mut self.address.target_ref;
        *target_ref = target_ref.as_ref().map(SharedReference::unversioned);
        self
    }
}

/// Cuts subsets down to [`CAPACITY`] addresses, each in proportion to its size, those that are not ready first. Returns
/// whether anything was cut off.
pub fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let cuts_ready = ready > CAPACITY;
    let (limit, total) = if cuts_ready { (CAPACITY, ready) } else { (CAPACITY - ready, not_ready) };
    let mut room = limit;
    for subset in subsets {
        if cuts_ready {
            subset.not_ready_addresses.clear();
        }
        let cut = if cuts_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let share = (cut.len() * limit).div_ceil(total).min(room);
        cut.truncate(share);
        room -= cut.len();
    }
    true
}
