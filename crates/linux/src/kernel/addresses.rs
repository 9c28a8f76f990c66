//! Addresses of interfaces, over rtnetlink.

use std::io;
use std::net::IpAddr;

use nix::net::if_::{if_indextoname, if_nametoindex};
use nix::sys::socket::SockProtocol;

use super::netlink::{ACK, CREATE, DUMP, Messages, REPLACE, Socket, attribute};
use super::{address, family, octets};
use crate::balancer::Held;
use crate::plan::{Lifetime, SeenAddress};

const NEW: u16 = 20;
const DELETE: u16 = 21;
const GET: u16 = 22;
/// `struct ifaddrmsg`.
const FIXED: usize = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const CACHE_INFO: u16 = 6;
const FLAGS: u16 = 8;
const PROTOCOL: u16 = 11;
/// No detection of duplicates: the previous holder may still answer, and must not keep us from taking over.
const NO_DAD: u32 = 0x02;
const FOREVER: u32 = u32::MAX;

/// All addresses; those with the number `protocol` are ours.
pub(super) fn list(protocol: u8) -> io::Result<Vec<SeenAddress>> {
    let socket = Socket::open(SockProtocol::NetlinkRoute)?;
    let replies = socket.dump(&Messages::one(GET, DUMP, &[0; FIXED], |_| {}))?;
    let mut found = vec![];
    for reply in replies.iter().filter(|reply| reply.kind == NEW) {
        let Some((index, address, number)) = parse(&reply.body) else { continue };
        // An interface that vanishes meanwhile takes its addresses along.
        let Ok(interface) = if_indextoname(index) else { continue };
        let interface = interface.to_string_lossy().into();
        found.push(SeenAddress { held: Held { address, interface }, is_ours: number == Some(protocol) });
    }
    Ok(found)
}

/// The interface, the address and its protocol number.
pub(super) fn parse(body: &[u8]) -> Option<(u32, IpAddr, Option<u8>)> {
    let index = u32::from_ne_bytes(body.get(4..FIXED)?.try_into().ok()?);
    let attributes = body.get(FIXED..)?;
    // On a link between two machines, `ADDRESS` is that of the other.
    let local = attribute(attributes, LOCAL).or_else(|| attribute(attributes, ADDRESS));
    let number = attribute(attributes, PROTOCOL).and_then(|value| value.first().copied());
    Some((index, address(local?)?, number))
}

pub(super) fn hold(held: &Held, lifetime: Lifetime, protocol: u8) -> io::Result<()> {
    let seconds = match lifetime {
        Lifetime::Forever => FOREVER,
        Lifetime::For(time) => u32::try_from(time.as_secs()).unwrap_or(FOREVER).max(1),
    };
    let socket = Socket::open(SockProtocol::NetlinkRoute)?;
    let octets = octets(held.address);
    let message = Messages::one(NEW, ACK | CREATE | REPLACE, &fixed(held)?, |message| {
        message
            .bytes(LOCAL, &octets)
            .bytes(ADDRESS, &octets)
            .ne32(FLAGS, NO_DAD)
            .bytes(PROTOCOL, &[protocol]);
        // Preferred for no time: the machine does not choose it for connections of its own.
        let times = [0, seconds, 0, 0].map(u32::to_ne_bytes).concat();
        message.bytes(CACHE_INFO, &times);
    });
    socket.execute(&message, 0)
}

pub(super) fn release(held: &Held) -> io::Result<()> {
    let socket = Socket::open(SockProtocol::NetlinkRoute)?;
    let octets = octets(held.address);
    let message = Messages::one(DELETE, ACK, &fixed(held)?, |message| {
        message.bytes(LOCAL, &octets).bytes(ADDRESS, &octets);
    });
    match socket.execute(&message, 0) {
        // Its lifetime has ended meanwhile.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EADDRNOTAVAIL as i32) => Ok(()),
        result => result,
    }
}

fn fixed(held: &Held) -> io::Result<[u8; FIXED]> {
    let index = if_nametoindex(held.interface.as_str())
        .map_err(|_| io::Error::other(format!("there is no interface {:?}", held.interface)))?;
    let is_v6 = held.address.is_ipv6();
    let [a, b, c, d] = index.to_ne_bytes();
    Ok([family(is_v6), if is_v6 { 128 } else { 32 }, 0, 0, a, b, c, d])
}
