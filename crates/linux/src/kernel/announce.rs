//! Announcements that an address is here now: gratuitous ARP, and unsolicited neighbour advertisements.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};

use crate::balancer::Held;

type Mac = [u8; 6];

const BROADCAST: Mac = [0xff; 6];
/// All nodes on the link, ff02::1.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];
const ICMPV6: u8 = 58;

pub(super) fn announce(held: &Held) -> io::Result<()> {
    // An interface without such an address has no neighbours to announce to.
    let Some((link, mac)) = link(&held.interface)? else { return Ok(()) };
    let frame = match held.address {
        IpAddr::V4(address) => arp(mac, address).to_vec(),
        IpAddr::V6(address) => advertisement(mac, address).to_vec(),
    };
    // Without a protocol the socket receives nothing.
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    sendto(socket.as_raw_fd(), &frame, &link, MsgFlags::empty())?;
    Ok(())
}

/// The interface as the destination of a frame, and its own address; `None` for the likes of `lo`.
fn link(interface: &str) -> io::Result<Option<(LinkAddr, Mac)>> {
    let mut of_interface = getifaddrs()?.filter(|found| found.interface_name == interface).peekable();
    if of_interface.peek().is_none() {
        return Err(io::Error::other(format!("there is no interface {interface:?}")));
    }
    let links = of_interface.filter_map(|found| found.address?.as_link_addr().copied());
    let with_mac = links.filter_map(|link| link.addr().map(|mac| (link, mac)));
    Ok(with_mac.into_iter().find(|(_, mac)| *mac != [0; 6]))
}

/// An ARP request for the address by its holder: caches that have the address take the new holder.
fn arp(mac: Mac, address: Ipv4Addr) -> [u8; 42] {
    let mut frame = [0; 42];
    let parts: [&[u8]; 9] = [
        &BROADCAST,
        &mac,
        &[0x08, 0x06],
        // Ethernet and IPv4, with the lengths of their addresses; a request.
        &[0, 1, 0x08, 0, 6, 4, 0, 1],
        &mac,
        &address.octets(),
        &[0; 6],
        &address.octets(),
        &[],
    ];
    fill(&mut frame, &parts);
    frame
}

/// A neighbour advertisement to all nodes that overrides what they have.
fn advertisement(mac: Mac, address: Ipv6Addr) -> [u8; 86] {
    const LENGTH: u8 = 32;
    let mut message = [0; LENGTH as usize];
    // Type 136, code 0, checksum, flags: override; the address; the option with the link-layer address.
    fill(&mut message, &[&[136, 0, 0, 0, 0x20, 0, 0, 0], &address.octets(), &[2, 1], &mac]);
    let checksum = checksum(address, ALL_NODES, &message).to_be_bytes();
    message[2..4].copy_from_slice(&checksum);
    let mut frame = [0; 86];
    // Version 6; the hop limit must be 255.
    let fixed = [0x60, 0, 0, 0, 0, LENGTH, ICMPV6, 255];
    let parts: [&[u8]; 7] =
        [&ALL_NODES_MAC, &mac, &[0x86, 0xdd], &fixed, &address.octets(), &ALL_NODES.octets(), &message];
    fill(&mut frame, &parts);
    frame
}

fn fill(frame: &mut [u8], parts: &[&[u8]]) {
    let bytes = parts.iter().flat_map(|part| part.iter());
    frame.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
}

/// Of ICMPv6: the ones' complement of the sum over the addresses, the length, the protocol and the message.
fn checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let pairs = |bytes: &[u8]| -> u32 {
        bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
            .sum()
    };
    let length = u32::try_from(message.len()).unwrap_or_default();
    let mut sum = pairs(&from.octets()) + pairs(&to.octets()) + pairs(message) + length + u32::from(ICMPV6);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [2, 0, 0, 0, 0, 7];

    #[test]
    fn a_gratuitous_arp_names_the_address_as_sender_and_as_target() {
        let frame = arp(MAC, "192.0.2.1".parse().unwrap());
        assert_eq!(frame[..6], BROADCAST);
        assert_eq!(frame[6..14], [2, 0, 0, 0, 0, 7, 0x08, 0x06]);
        assert_eq!(
            (&frame[22..28], &frame[28..32], &frame[38..42]),
            (&MAC[..], &[192, 0, 2, 1][..], &[192, 0, 2, 1][..])
        );
    }

    #[test]
    fn an_advertisement_overrides_and_its_checksum_is_right() {
        let address = "2001:db8::1".parse().unwrap();
        let frame = advertisement(MAC, address);
        assert_eq!((frame[..6].to_vec(), &frame[12..14]), (ALL_NODES_MAC.to_vec(), &[0x86, 0xdd][..]));
        assert_eq!((frame[21], frame[54], frame[58]), (255, 136, 0x20));
        assert_eq!(frame[80..86], MAC);
        // Over a message with its checksum in place, the sum is all ones.
        assert_eq!(checksum(address, ALL_NODES, &frame[54..]), 0);
    }
}
