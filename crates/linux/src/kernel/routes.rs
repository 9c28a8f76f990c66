//! Routes in the main table, over rtnetlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use nix::sys::socket::SockProtocol;

use super::netlink::{ACK, CREATE, DUMP, EXCL, Messages, Socket, attribute};
use super::{PodRoute, address, family, octets};

const NEW: u16 = 24;
const DELETE: u16 = 25;
const GET: u16 = 26;
/// `struct rtmsg`.
const FIXED: usize = 12;
const DESTINATION: u16 = 1;
const GATEWAY: u16 = 5;
const MAIN: u8 = 254;
const UNIVERSE: u8 = 0;
const UNICAST: u8 = 1;
const BLACKHOLE: u8 = 6;

/// The routes in the main table with this protocol number.
pub(super) fn list(protocol: u8) -> io::Result<Vec<PodRoute>> {
    let socket = Socket::open(SockProtocol::NetlinkRoute)?;
    let mut found = vec![];
    for is_v6 in [false, true] {
        let mut fixed = [0; FIXED];
        fixed[0] = family(is_v6);
        let replies = socket.dump(&Messages::one(GET, DUMP, &fixed, |_| {}))?;
        found.extend(
            replies.iter().filter(|reply| reply.kind == NEW).filter_map(|reply| parse(&reply.body, protocol)),
        );
    }
    Ok(found)
}

pub(super) fn parse(body: &[u8], protocol: u8) -> Option<PodRoute> {
    let &[_, length, _, _, table, number, _, kind, ..] = body else { return None };
    if (table, number) != (MAIN, protocol) || ![UNICAST, BLACKHOLE].contains(&kind) {
        return None;
    }
    let attributes = body.get(FIXED..)?;
    let destination = match attribute(attributes, DESTINATION) {
        Some(bytes) => address(bytes)?,
        // The default route.
        None => everywhere(body[0])?,
    };
    let destination = IpNet::new(destination, length).ok()?;
    let via = attribute(attributes, GATEWAY).and_then(address).filter(|_| kind == UNICAST);
    Some(PodRoute { destination, via })
}

/// The address of a route without one.
fn everywhere(number: u8) -> Option<IpAddr> {
    let zeros = [(false, IpAddr::V4(Ipv4Addr::UNSPECIFIED)), (true, IpAddr::V6(Ipv6Addr::UNSPECIFIED))];
    zeros.into_iter().find(|(is_v6, _)| family(*is_v6) == number).map(|(_, zero)| zero)
}

pub(super) fn add(route: &PodRoute, protocol: u8) -> io::Result<()> {
    change(NEW, CREATE | EXCL, route, protocol)
}

pub(super) fn delete(route: &PodRoute, protocol: u8) -> io::Result<()> {
    match change(DELETE, 0, route, protocol) {
        // It is gone already.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32) => Ok(()),
        result => result,
    }
}

/// The kernel compares the protocol number, too, so a route that is not ours is not deleted.
fn change(kind: u16, flags: u16, route: &PodRoute, protocol: u8) -> io::Result<()> {
    let destination = route.destination;
    let is_v6 = destination.addr().is_ipv6();
    let type_ = if route.via.is_some() { UNICAST } else { BLACKHOLE };
    let fixed = [family(is_v6), destination.prefix_len(), 0, 0, MAIN, protocol, UNIVERSE, type_, 0, 0, 0, 0];
    let message = Messages::one(kind, flags | ACK, &fixed, |message| {
        message.bytes(DESTINATION, &octets(destination.network()));
        if let Some(via) = route.via {
            message.bytes(GATEWAY, &octets(via));
        }
    });
    Socket::open(SockProtocol::NetlinkRoute)?.execute(&message, 0)
}
