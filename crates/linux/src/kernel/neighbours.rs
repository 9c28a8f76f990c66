//! Whether a machine in the network has an address, found out by the kernel's own resolution of neighbours.

use std::io;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;
use tokio::time::Instant;

use super::netlink::{ACK, CREATE, Messages, Socket, attribute};
use super::{family, octets};
use crate::balancer::Held;

const NEW: u16 = 28;
const DELETE: u16 = 29;
/// `struct ndmsg`.
const FIXED: usize = 12;
const DESTINATION: u16 = 1;
/// Resolve it now.
const USE: u8 = 0x01;
const REACHABLE: u16 = 0x02;
const FAILED: u16 = 0x20;
/// The multicast group that is notified of changed neighbours.
const GROUP: u32 = 1 << 2;
/// How long a machine may take to answer. One that is slower is overlooked.
const TIMEOUT: Duration = Duration::from_millis(500);

pub(super) fn answers(held: &Held) -> io::Result<bool> {
    let index = if_nametoindex(held.interface.as_str())
        .map_err(|_| io::Error::other(format!("there is no interface {:?}", held.interface)))?;
    let (own, wanted) = (family(held.address.is_ipv6()), octets(held.address));
    let [a, b, c, d] = index.to_ne_bytes();
    let message = |kind, flags, note| {
        let fixed = [own, 0, 0, 0, a, b, c, d, 0, 0, note, 0];
        Messages::one(kind, ACK | flags, &fixed, |message| {
            message.bytes(DESTINATION, &wanted);
        })
    };
    let listener = Socket::listening(SockProtocol::NetlinkRoute, GROUP, TIMEOUT)?;
    let socket = Socket::open(SockProtocol::NetlinkRoute)?;
    // What is known from before is forgotten, so that only an answer of now counts.
    forget(&socket, &message(DELETE, 0, 0))?;
    socket.execute(&message(NEW, CREATE, USE), 0)?;
    let end = Instant::now() + TIMEOUT;
    let mut answers = false;
    while Instant::now() < end {
        let Some(replies) = listener.news()? else { break };
        let states = replies.iter().filter(|reply| reply.kind == NEW).filter_map(|reply| {
            let is_it = reply.body.get(4..8)? == index.to_ne_bytes()
                && attribute(reply.body.get(FIXED..)?, DESTINATION)? == wanted;
            is_it.then_some(u16::from_ne_bytes(reply.body.get(8..10)?.try_into().ok()?))
        });
        let states: Vec<u16> = states.collect();
        answers = states.iter().any(|state| state & REACHABLE != 0);
        if answers || states.iter().any(|state| state & FAILED != 0) {
            break;
        }
    }
    forget(&socket, &message(DELETE, 0, 0))?;
    Ok(answers)
}

fn forget(socket: &Socket, message: &Messages) -> io::Result<()> {
    match socket.execute(message, 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
