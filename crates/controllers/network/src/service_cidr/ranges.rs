//! The ranges of ServiceCIDRs: overlap, and the addresses in them.

use std::net::IpAddr;

use flyball_api::ServiceCIDR;
use ipnet::IpNet;

/// The ranges of a ServiceCIDR, which the server has validated.
pub(crate) fn ranges(cidr: &ServiceCIDR) -> impl Iterator<Item = IpNet> {
    cidr.spec.cidrs.iter().filter_map(|range| range.parse().ok())
}

/// Whether some range of `cidr` has an address in common with one of `other`.
pub(crate) fn overlap(cidr: &ServiceCIDR, other: &ServiceCIDR) -> bool {
    ranges(cidr).any(|range| ranges(other).any(|other| range.contains(&other) || other.contains(&range)))
}

/// Whether `range` lies in one of the ranges of `cidr`.
pub(crate) fn covers(cidr: &ServiceCIDR, range: &IpNet) -> bool {
    ranges(cidr).any(|own| own.contains(range))
}

/// Whether a Service may get `address` from `cidr`: the first address of a range is never allocated, nor is the last one of
/// an IPv4 range.
pub(crate) fn provides(cidr: &ServiceCIDR, address: IpAddr) -> bool {
    ranges(cidr).any(|range| {
        let is_last = address.is_ipv4() && range.broadcast() == address;
        range.contains(&address) && range.network() != address && !is_last
    })
}
