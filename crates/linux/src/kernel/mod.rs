//! The kernel's state, over netlink: read whole, changed one operation at a time. What to do is decided elsewhere (`plan`).

mod addresses;
mod announce;
mod flows;
mod neighbours;
mod netlink;
mod nftables;
mod routes;

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::balancer::Held;
use crate::plan::{Flow, Operation, Seen, SeenAddress};

/// A route to the pods of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRoute {
    pub destination: IpNet,
    /// `None` for a blackhole.
    pub via: Option<IpAddr>,
}

/// The operations of a gateway on the kernel. Calls block, but only briefly.
pub trait Kernel: Send + Sync + 'static {
    fn observe(&self) -> io::Result<Seen>;
    fn apply(&self, operation: &Operation) -> io::Result<()>;
    /// Forgets the connections that `is_stale`, so that their packets are no longer forwarded; how many.
    fn forget_flows(&self, is_stale: &dyn Fn(&Flow) -> bool) -> io::Result<usize>;
    /// Whether another machine in the interface's network has an address that this one does not hold.
    fn is_elsewhere(&self, held: &Held) -> io::Result<bool>;
    /// The addresses of this machine.
    fn addresses(&self) -> io::Result<Vec<SeenAddress>>;
    /// The routes in the main table with our protocol number.
    fn routes(&self) -> io::Result<Vec<PodRoute>>;
    /// Fails if there is any route for the same destination.
    fn add_route(&self, route: &PodRoute) -> io::Result<()>;
    fn delete_route(&self, route: &PodRoute) -> io::Result<()>;
}

/// The kernel of this machine, or of the network namespace that the calling thread is in.
#[derive(Debug, Clone, Copy)]
pub struct Linux {
    /// The number that marks addresses and routes as ours.
    pub protocol: u8,
}

impl Kernel for Linux {
    fn observe(&self) -> io::Result<Seen> {
        Ok(Seen { addresses: addresses::list(self.protocol)?, rules: nftables::rules()? })
    }

    fn apply(&self, operation: &Operation) -> io::Result<()> {
        match operation {
            Operation::Replace(table) => nftables::replace(table),
            Operation::DeleteTable => nftables::delete(),
            Operation::Hold(held, lifetime) => addresses::hold(held, *lifetime, self.protocol),
            Operation::Announce(held) => announce::announce(held),
            Operation::Release(held) => addresses::release(held),
        }
    }

    fn forget_flows(&self, is_stale: &dyn Fn(&Flow) -> bool) -> io::Result<usize> {
        flows::forget(is_stale)
    }

    fn is_elsewhere(&self, held: &Held) -> io::Result<bool> {
        neighbours::answers(held)
    }

    fn addresses(&self) -> io::Result<Vec<SeenAddress>> {
        addresses::list(self.protocol)
    }

    fn routes(&self) -> io::Result<Vec<PodRoute>> {
        routes::list(self.protocol)
    }

    fn add_route(&self, route: &PodRoute) -> io::Result<()> {
        routes::add(route, self.protocol)
    }

    fn delete_route(&self, route: &PodRoute) -> io::Result<()> {
        routes::delete(route, self.protocol)
    }
}

/// Reads messages of the kernel in every way in which this module reads one, for the fuzz target.
pub(crate) fn read_all(bytes: &[u8]) {
    for message in netlink::split(bytes) {
        let Ok((_, body)) = message else { return };
        let _ = (addresses::parse(body), nftables::parse(body), netlink::error_code(body).is_ok());
        for number in body.get(5).into_iter().copied() {
            let _ = routes::parse(body, number);
        }
        for is_v6 in [false, true] {
            let _ = flows::parse(body.get(flows::FIXED..).unwrap_or_default(), is_v6);
        }
    }
}

/// The number of an address family, as in <linux/socket.h>.
fn family(is_v6: bool) -> u8 {
    if is_v6 { 10 } else { 2 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(octets).ok().map(IpAddr::from))
}
