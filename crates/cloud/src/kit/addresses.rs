//! Chooses the addresses of a load balancer from ranges. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use flyball_api::Service;
use ipnet::IpNet;

/// Why a Service gets no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAddress {
    #[error("loadBalancerIP {0:?} is not an address")]
    Unreadable(String),
    #[error("loadBalancerIP {0} is not one of this cloud's addresses")]
    Foreign(IpAddr),
    #[error("loadBalancerIP {0} is the first or the last address of its range, which is the network's own")]
    Reserved(IpAddr),
    #[error("loadBalancerIP {0} is taken")]
    Taken(IpAddr),
    #[error("all addresses are taken")]
    Exhausted,
}

/// One address of `ranges` for every family of a Service that the ranges have: the requested one, or the previous one, or the first
/// that is not `taken`.
pub fn choose(
    ranges: &[IpNet],
    service: &Service,
    taken: &BTreeSet<IpAddr>,
) -> Result<Vec<IpAddr>, NoAddress> {
    let asked = asked_for(service)?;
    if let Some(asked) = asked {
        match ranges.iter().find(|range| range.contains(&asked)) {
            None => return Err(NoAddress::Foreign(asked)),
            Some(range) if is_reserved(range, asked) => return Err(NoAddress::Reserved(asked)),
            Some(_) if taken.contains(&asked) => return Err(NoAddress::Taken(asked)),
            Some(_) => {}
        }
    }
    let had: Vec<IpAddr> = shown(service).collect();
    let chosen = families(service).filter_map(|is_v6| {
        let of_family = ranges.iter().filter(move |range| range.network().is_ipv6() == is_v6);
        let fits = |address: &IpAddr| {
            address.is_ipv6() == is_v6
                && !taken.contains(address)
                && ranges.iter().any(|range| range.contains(address))
        };
        let preferred = asked.into_iter().chain(had.iter().copied()).find(fits);
        preferred.or_else(|| of_family.flat_map(usable).find(|address| !taken.contains(address)))
    });
    let chosen: Vec<IpAddr> = chosen.collect();
    if chosen.is_empty() { Err(NoAddress::Exhausted) } else { Ok(chosen) }
}

/// The usable addresses of a range.
fn usable(range: &IpNet) -> impl Iterator<Item = IpAddr> + use<> {
    let range = *range;
    range.hosts().filter(move |address| !is_reserved(&range, *address))
}

/// Whether an address is that of the network itself (in IPv6, of its routers), or in IPv4 of all its machines. Ranges of one or two
/// addresses have none.
fn is_reserved(range: &IpNet, address: IpAddr) -> bool {
    let is_small = range.max_prefix_len() - range.prefix_len() < 2;
    !is_small && (address == range.network() || (address.is_ipv4() && address == range.broadcast()))
}

/// The address that a Service requests.
fn asked_for(service: &Service) -> Result<Option<IpAddr>, NoAddress> {
    match service.spec.load_balancer_ip.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| NoAddress::Unreadable(text.to_owned())),
    }
}

/// The addresses in the status of a Service.
pub fn shown(service: &Service) -> impl Iterator<Item = IpAddr> {
    service.status.load_balancer.ingress.iter().filter_map(|ingress| ingress.ip.parse().ok())
}

/// The families of a Service; true for IPv6.
fn families(service: &Service) -> impl Iterator<Item = bool> {
    let families = service.spec.ip_families.iter().map(|family| family == "IPv6");
    let families: Vec<bool> = families.collect();
    let families = if families.is_empty() { vec![false] } else { families };
    families.into_iter()
}
