//! IP addresses and their families, parsed as leniently as upstream does.

use std::net::{IpAddr, Ipv4Addr};

use flyball_api::Service;
use smol_str::{SmolStr, ToSmolStr};

/// The families of a Service are reconciled in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// The value in an EndpointSlice's `addressType` and a Service's `ipFamilies`.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Family::V4, Family::V6].into_iter().find(|family| family.as_str() == name)
    }

    fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

/// The families of a Service's slices.
pub(crate) fn families(service: &Service) -> Vec<Family> {
    let named = |family: Family| service.spec.ip_families.iter().any(|name| name == family.as_str());
    let both = [Family::V4, Family::V6];
    let mut families: Vec<Family> = both.into_iter().filter(|family| named(*family)).collect();
    if families.is_empty() {
        // Only an API server without dual stack leaves the families out. Its headless Services may have either.
        families = match parse(&service.spec.cluster_ip) {
            Some((family, _)) => vec![family],
            None => both.to_vec(),
        };
    }
    families
}

/// An address in its canonical form, with its family. Octets may have leading zeros, and an IPv4-mapped IPv6 address is an
/// IPv4 address.
pub(crate) fn parse(text: &str) -> Option<(Family, SmolStr)> {
    let address = text.parse().ok().or_else(|| with_leading_zeros(text))?;
    let address = address.to_canonical();
    Some((Family::of(address), address.to_smolstr()))
}

fn with_leading_zeros(text: &str) -> Option<IpAddr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let digits = parts.next()?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = digits.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_leniently_and_written_canonically() {
        #[rustfmt::skip]
        let table = [
            ("10.0.0.1",         Some((Family::V4, "10.0.0.1"))),
            ("010.0.00.1",       Some((Family::V4, "10.0.0.1"))),
            ("FD00:0:0::1",      Some((Family::V6, "fd00::1"))),
            ("::ffff:10.0.0.1",  Some((Family::V4, "10.0.0.1"))),
            ("10.0.0",           None),
            ("10.0.0.1.2",       None),
            ("10.0.0.+1",        None),
            ("10.0.0.256",       None),
            ("web",              None),
            ("",                 None),
        ];
        for (text, want) in table {
            assert_eq!(parse(text).as_ref().map(|(family, ip)| (*family, ip.as_str())), want, "{text}");
        }
    }
}
