//! The connections that the kernel translates, over ctnetlink.

use std::io;
use std::net::IpAddr;

use nix::sys::socket::SockProtocol;

use super::netlink::{ACK, DUMP, Messages, Socket, attribute};
use super::{address, family};
use crate::balancer::Protocol;
use crate::plan::Flow;

const GET: u16 = 0x101;
const DELETE: u16 = 0x102;
/// `struct nfgenmsg`.
pub(super) const FIXED: usize = 4;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
/// The destination was changed.
const TRANSLATED: u32 = 0x20;
const ADDRESSES: u16 = 1;
const PROTOCOL: u16 = 2;

pub(super) fn forget(is_stale: &dyn Fn(&Flow) -> bool) -> io::Result<usize> {
    let socket = Socket::open(SockProtocol::NetlinkNetFilter)?;
    let mut forgotten = 0;
    for is_v6 in [false, true] {
        let fixed = [family(is_v6), 0, 0, 0];
        for reply in socket.dump(&Messages::one(GET, DUMP, &fixed, |_| {}))? {
            let Some(attributes) = reply.body.get(FIXED..) else { continue };
            let flow = parse(attributes, is_v6);
            let Some(original) =
                attribute(attributes, ORIGINAL).filter(|_| flow.as_ref().is_some_and(is_stale))
            else {
                continue;
            };
            // The connection is named by its original direction, as it was read.
            let message = Messages::one(DELETE, ACK, &fixed, |message| {
                message.bytes(ORIGINAL | NESTED, original);
            });
            match socket.execute(&message, 0) {
                Ok(()) => forgotten += 1,
                // It has ended meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(forgotten)
}

const NESTED: u16 = 0x8000;

/// A connection whose destination was changed.
pub(super) fn parse(attributes: &[u8], is_v6: bool) -> Option<Flow> {
    let status = attribute(attributes, STATUS)?.try_into().map(u32::from_be_bytes).ok()?;
    if status & TRANSLATED == 0 {
        return None;
    }
    let original = attribute(attributes, ORIGINAL)?;
    let protocol = attribute(original, PROTOCOL)?;
    let ports = attribute(protocol, 3)?;
    Some(Flow {
        address: end(original, if is_v6 { 4 } else { 2 })?,
        protocol: match attribute(protocol, 1)? {
            [6] => Protocol::Tcp,
            [17] => Protocol::Udp,
            _ => return None,
        },
        port: u16::from_be_bytes(ports.try_into().ok()?),
        backend: end(attribute(attributes, REPLY)?, if is_v6 { 3 } else { 1 })?,
    })
}

/// The address of one end of a direction.
fn end(direction: &[u8], kind: u16) -> Option<IpAddr> {
    address(attribute(attribute(direction, ADDRESSES)?, kind)?)
}
