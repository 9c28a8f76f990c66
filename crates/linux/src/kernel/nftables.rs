//! Our table of nf_tables, over netlink: replaced whole, in one transaction, so that no packet meets half of it.
//!
//! The numbers are those of <linux/netfilter/nf_tables.h>. Packets pass the expressions of a rule with values in registers.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use nix::sys::socket::SockProtocol;

use super::netlink::{ACK, APPEND, Attributes, CREATE, DUMP, Messages, Socket, attribute};
use super::{family, octets};
use crate::balancer::Protocol;
use crate::ruleset::{Chain, Choice, Elements, Expression, Hook, InSet, Rule, Set, TABLE, Table};

const SUBSYSTEM: u16 = 10;
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const GET_RULE: u16 = SUBSYSTEM << 8 | 7;
const NEW_SET: u16 = SUBSYSTEM << 8 | 9;
const NEW_ELEMENTS: u16 = SUBSYSTEM << 8 | 12;
/// `struct nfgenmsg` for tables of both families.
const INET: [u8; 4] = [1, 0, 0, 0];
/// The type of comments in user data, and the most that fits into one.
const COMMENT: u8 = 0;
const LONGEST_COMMENT: usize = 250;
/// Elements in one message; the length of its list has sixteen bits.
const ELEMENTS: usize = 500;
const ELEMENT: u16 = 1;
const VERDICT: u32 = 0;
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;

/// The chains and comments of the rules in our table; none if there is no table.
pub(super) fn rules() -> io::Result<Vec<(String, String)>> {
    let socket = Socket::open(SockProtocol::NetlinkNetFilter)?;
    let request = Messages::one(GET_RULE, DUMP, &INET, |message| {
        message.text(1, TABLE);
    });
    let replies = socket.dump(&request)?;
    let rules = replies.iter().filter(|reply| reply.kind == NEW_RULE);
    Ok(rules.filter_map(|reply| parse(&reply.body)).collect())
}

/// The chain and the comment of a rule in our table.
pub(super) fn parse(body: &[u8]) -> Option<(String, String)> {
    let attributes = body.get(INET.len()..)?;
    let is_ours = attribute(attributes, 1).map(text)? == TABLE;
    let comment = attribute(attributes, 7).and_then(comment).unwrap_or_default();
    is_ours.then_some((text(attribute(attributes, 2)?), comment))
}

/// Deletes our table, if there is one, and makes this one.
pub(super) fn replace(table: &Table) -> io::Result<()> {
    transact(|batch| {
        delete_if_there(batch);
        named(batch, NEW_TABLE, CREATE, |_| {});
        // Maps lead to chains, and rules use sets, whose elements cannot be added any more then.
        table.chains.iter().for_each(|chain| add_chain(batch, chain));
        table.sets.iter().for_each(|set| add_set(batch, set));
        for chain in &table.chains {
            chain.rules.iter().for_each(|rule| add_rule(batch, &chain.name, rule));
        }
    })
}

pub(super) fn delete() -> io::Result<()> {
    transact(delete_if_there)
}

fn transact(fill: impl FnOnce(&mut Messages)) -> io::Result<()> {
    // A transaction is for one subsystem, which the last two bytes name.
    let fixed = [0, 0, 0, SUBSYSTEM as u8];
    let mut batch = Messages::default();
    batch.add(BEGIN, 0, &fixed, |_| {});
    fill(&mut batch);
    // Something that changes nothing, to be acknowledged: older kernels do not acknowledge the end.
    batch.add(NEW_TABLE, CREATE | ACK, &INET, |message| {
        message.text(1, TABLE);
    });
    batch.add(END, 0, &fixed, |_| {});
    Socket::open(SockProtocol::NetlinkNetFilter)?.execute(&batch, 1)
}

fn delete_if_there(batch: &mut Messages) {
    named(batch, NEW_TABLE, CREATE, |_| {});
    named(batch, DELETE_TABLE, 0, |_| {});
}

/// A message about our table, whose name is the first attribute everywhere.
fn named(batch: &mut Messages, kind: u16, flags: u16, fill: impl FnOnce(&mut Attributes)) {
    batch.add(kind, flags, &INET, |message| {
        fill(message.text(1, TABLE));
    });
}

fn add_chain(batch: &mut Messages, chain: &Chain) {
    named(batch, NEW_CHAIN, CREATE, |message| {
        message.text(3, &chain.name);
        let Some(hook) = chain.hook else { return };
        let (kind, number, priority) = place(hook);
        message.nested(4, |hook| {
            hook.be32(1, number).be32(2, priority as u32);
        });
        message.text(7, kind);
    });
}

/// The type, the hook and the priority of a chain.
fn place(hook: Hook) -> (&'static str, u32, i32) {
    match hook {
        Hook::BeforeNat => ("filter", 0, -110),
        Hook::NatPrerouting => ("nat", 0, -100),
        Hook::Input => ("filter", 1, 0),
        Hook::Forward => ("filter", 2, 0),
        Hook::NatOutput => ("nat", 3, -100),
        Hook::NatPostrouting => ("nat", 4, 100),
    }
}

fn add_set(batch: &mut Messages, set: &Set) {
    const CONSTANT: u32 = 0x2;
    const INTERVALS: u32 = 0x4;
    const MAP: u32 = 0x8;
    const VERDICTS: u32 = 0xffff_ff00;
    // What nft calls these types, and their lengths.
    const INTEGER: (u32, u32) = (4, 4);
    const PORT: (u32, u32) = (13, 2);
    let address = |is_v6: &bool| if *is_v6 { (8, 16) } else { (7, 4) };
    let (flags, key, value) = match &set.elements {
        Elements::Numbered { is_v6, .. } => (MAP, INTEGER, Some(address(is_v6))),
        Elements::Chains { is_v6, .. } => (MAP, address(is_v6), Some((VERDICTS, 0))),
        Elements::Addresses { is_v6, .. } => (0, address(is_v6), None),
        Elements::Ranges { is_v6, .. } => (INTERVALS, address(is_v6), None),
        Elements::Ports(_) => (0, PORT, None),
        Elements::NodePorts(_) => (MAP, PORT, Some(PORT)),
    };
    named(batch, NEW_SET, CREATE, |message| {
        message.text(2, &set.name).be32(3, CONSTANT | flags).be32(4, key.0).be32(5, key.1);
        if let Some((kind, length)) = value {
            message.be32(6, kind).be32(7, length);
        }
        message.be32(10, 1);
    });
    for some in elements(&set.elements).chunks(ELEMENTS) {
        named(batch, NEW_ELEMENTS, CREATE, |message| {
            message.text(2, &set.name);
            message.nested(3, |list| some.iter().for_each(|element| element.write(list)));
        });
    }
}

struct Element {
    key: Vec<u8>,
    value: Option<Value>,
    /// Where a range ends: the first address behind it.
    is_end: bool,
}

enum Value {
    Bytes(Vec<u8>),
    JumpTo(String),
}

impl Element {
    fn write(&self, list: &mut Attributes) {
        const END_OF_RANGE: u32 = 1;
        list.nested(ELEMENT, |element| {
            data(element, 1, &self.key);
            match &self.value {
                None => {}
                Some(Value::Bytes(bytes)) => data(element, 2, bytes),
                Some(Value::JumpTo(chain)) => verdict_data(element, 2, JUMP, Some(chain)),
            }
            if self.is_end {
                element.be32(3, END_OF_RANGE);
            }
        });
    }
}

fn elements(elements: &Elements) -> Vec<Element> {
    let plain = |key: Vec<u8>| Element { key, value: None, is_end: false };
    match elements {
        Elements::Numbered { addresses, .. } => {
            let numbered = (0_u32..).zip(addresses);
            let element = |(number, address): (u32, &IpAddr)| Element {
                value: Some(Value::Bytes(octets(*address))),
                ..plain(number.to_ne_bytes().into())
            };
            numbered.map(element).collect()
        }
        Elements::Chains { chains, .. } => {
            let element = |(address, chain): &(IpAddr, String)| Element {
                value: Some(Value::JumpTo(chain.clone())),
                ..plain(octets(*address))
            };
            chains.iter().map(element).collect()
        }
        Elements::Addresses { addresses, .. } => {
            addresses.iter().map(|address| plain(octets(*address))).collect()
        }
        Elements::Ranges { ranges, .. } => ranges.iter().flat_map(range).collect(),
        Elements::Ports(ports) => ports.iter().map(|port| plain(port.to_be_bytes().into())).collect(),
        Elements::NodePorts(ports) => {
            let element = |(port, node_port): &(u16, u16)| Element {
                value: Some(Value::Bytes(node_port.to_be_bytes().into())),
                ..plain(port.to_be_bytes().into())
            };
            ports.iter().map(element).collect()
        }
    }
}

/// Both ends of a range; the last of all addresses has nothing behind it.
fn range(range: &IpNet) -> Vec<Element> {
    let start = Element { key: octets(range.network()), value: None, is_end: false };
    let mut behind = octets(range.broadcast());
    let carries = behind.iter_mut().rev().all(|byte| {
        *byte = byte.wrapping_add(1);
        *byte == 0
    });
    let end = (!carries).then_some(Element { key: behind, value: None, is_end: true });
    [start].into_iter().chain(end).collect()
}

fn add_rule(batch: &mut Messages, chain: &str, rule: &Rule) {
    named(batch, NEW_RULE, CREATE | APPEND, |message| {
        message.text(2, chain);
        message.nested(4, |list| rule.0.iter().for_each(|expression| write(list, expression)));
        let mut comment = rule.to_string().into_bytes();
        comment.truncate(LONGEST_COMMENT);
        comment.push(0);
        let length = u8::try_from(comment.len()).unwrap_or(u8::MAX);
        message.bytes(7, &[&[COMMENT, length][..], &comment].concat());
    });
}

fn write(list: &mut Attributes, expression: &Expression) {
    match expression {
        Expression::FromInterface(interface) => from_interface(list, interface),
        Expression::JumpByDestination(InSet { is_v6, set }) => {
            load_destination(list, *is_v6);
            one(list, "lookup", |lookup| {
                lookup.text(1, set).be32(2, FIRST).be32(3, VERDICT);
            });
        }
        Expression::DestinationIn(InSet { is_v6, set }) => {
            load_destination(list, *is_v6);
            is_in(list, set);
        }
        Expression::SourceIn(InSet { is_v6, set }) => {
            of_family(list, *is_v6);
            load_source(list, *is_v6);
            is_in(list, set);
        }
        Expression::OriginalDestinationIn(InSet { is_v6, set }) => original(list, *is_v6, set),
        Expression::NotTranslated => translated(list, EQUAL),
        Expression::PortIn(protocol, set) => {
            load_port(list, *protocol);
            is_in(list, set);
        }
        Expression::Protocol(protocol) => of_protocol(list, *protocol),
        Expression::Jump(chain) => verdict(list, JUMP, Some(chain)),
        Expression::Accept => verdict(list, 1, None),
        Expression::Drop => verdict(list, 0, None),
        // With a message of ICMP or ICMPv6: the port is unreachable.
        Expression::Reject => one(list, "reject", |reject| {
            reject.be32(1, 2).bytes(2, &[1]);
        }),
        Expression::Masquerade => one(list, "masq", |_| {}),
        Expression::Translate { protocol, ports, map, is_v6, count, choice } => {
            load_port(list, *protocol);
            one(list, "lookup", |lookup| {
                lookup.text(1, ports).be32(2, FIRST).be32(3, SECOND);
            });
            choose(list, *choice, *is_v6, *count);
            one(list, "lookup", |lookup| {
                lookup.text(1, map).be32(2, FIRST).be32(3, FIRST);
            });
            one(list, "nat", |nat| {
                nat.be32(1, 1).be32(2, u32::from(family(*is_v6))).be32(3, FIRST).be32(5, SECOND);
            });
        }
    }
}

const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;

fn one(list: &mut Attributes, name: &str, fill: impl FnOnce(&mut Attributes)) {
    list.nested(ELEMENT, |element| {
        element.text(1, name).nested(2, fill);
    });
}

/// A value, as all data is wrapped.
fn data(attributes: &mut Attributes, kind: u16, value: &[u8]) {
    attributes.nested(kind, |data| {
        data.bytes(1, value);
    });
}

/// Loads some bytes of a header into the first register.
fn load(list: &mut Attributes, header: u32, offset: u32, length: u32) {
    one(list, "payload", |payload| {
        payload.be32(1, FIRST).be32(2, header).be32(3, offset).be32(4, length);
    });
}

/// Leaves the rule unless the first register compares.
fn compare(list: &mut Attributes, how: u32, value: &[u8]) {
    one(list, "cmp", |cmp| {
        cmp.be32(1, FIRST).be32(2, how);
        data(cmp, 3, value);
    });
}

fn mask(list: &mut Attributes, mask: &[u8]) {
    one(list, "bitwise", |bitwise| {
        let length = u32::try_from(mask.len()).unwrap_or_default();
        bitwise.be32(1, FIRST).be32(2, FIRST).be32(3, length);
        data(bitwise, 4, mask);
        data(bitwise, 5, &vec![0; mask.len()]);
    });
}

fn meta(list: &mut Attributes, key: u32, value: u8) {
    one(list, "meta", |meta| {
        meta.be32(1, FIRST).be32(2, key);
    });
    compare(list, EQUAL, &[value]);
}

fn of_family(list: &mut Attributes, is_v6: bool) {
    meta(list, 15, family(is_v6));
}

fn of_protocol(list: &mut Attributes, protocol: Protocol) {
    meta(list, 16, if protocol == Protocol::Tcp { 6 } else { 17 });
}

fn load_destination(list: &mut Attributes, is_v6: bool) {
    of_family(list, is_v6);
    let (offset, length) = if is_v6 { (24, 16) } else { (16, 4) };
    load(list, NETWORK, offset, length);
}

fn load_port(list: &mut Attributes, protocol: Protocol) {
    of_protocol(list, protocol);
    load(list, TRANSPORT, 2, 2);
}

/// Leaves the rule unless the first register is in the set.
fn is_in(list: &mut Attributes, set: &str) {
    one(list, "lookup", |lookup| {
        lookup.text(1, set).be32(2, FIRST);
    });
}

fn from_interface(list: &mut Attributes, interface: &str) {
    const NAME: u32 = 6;
    const LENGTH: usize = 16;
    one(list, "meta", |meta| {
        meta.be32(1, FIRST).be32(2, NAME);
    });
    let mut name = interface.as_bytes().to_vec();
    name.resize(LENGTH, 0);
    compare(list, EQUAL, &name);
}

fn load_source(list: &mut Attributes, is_v6: bool) {
    let (offset, length) = if is_v6 { (8, 16) } else { (12, 4) };
    load(list, NETWORK, offset, length);
}

/// Leaves the rule unless the connection's destination was changed, or was not.
fn translated(list: &mut Attributes, zero: u32) {
    const STATUS: u32 = 2;
    const TRANSLATED: u32 = 0x20;
    one(list, "ct", |ct| {
        ct.be32(1, FIRST).be32(2, STATUS);
    });
    mask(list, &TRANSLATED.to_ne_bytes());
    compare(list, zero, &[0; 4]);
}

/// Whether the connection's original destination, if that was changed, is in the set.
fn original(list: &mut Attributes, is_v6: bool, set: &str) {
    of_family(list, is_v6);
    translated(list, NOT_EQUAL);
    one(list, "ct", |ct| {
        ct.be32(1, FIRST).be32(2, if is_v6 { 22 } else { 20 }).bytes(3, &[0]);
    });
    is_in(list, set);
}

/// A number below `count` into the first register.
fn choose(list: &mut Attributes, choice: Choice, is_v6: bool, count: u32) {
    match choice {
        Choice::Random => one(list, "numgen", |numgen| {
            numgen.be32(1, FIRST).be32(2, count).be32(3, 1).be32(4, 0);
        }),
        Choice::BySource => {
            load_source(list, is_v6);
            one(list, "hash", |hash| {
                // The same seed on every gateway.
                hash.be32(1, FIRST)
                    .be32(2, FIRST)
                    .be32(3, if is_v6 { 16 } else { 4 })
                    .be32(4, count)
                    .be32(5, 1);
            });
        }
    }
}

const JUMP: i32 = -3;

fn verdict(list: &mut Attributes, code: i32, chain: Option<&str>) {
    one(list, "immediate", |immediate| {
        immediate.be32(1, VERDICT);
        verdict_data(immediate, 2, code, chain);
    });
}

fn verdict_data(attributes: &mut Attributes, kind: u16, code: i32, chain: Option<&str>) {
    attributes.nested(kind, |data| {
        data.nested(2, |verdict| {
            verdict.be32(1, code as u32);
            if let Some(chain) = chain {
                verdict.text(2, chain);
            }
        });
    });
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The comment in the user data of a rule.
fn comment(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    while let [kind, length, value @ ..] = rest {
        let (value, others) = value.split_at_checked(usize::from(*length))?;
        if *kind == COMMENT {
            return Some(text(value));
        }
        rest = others;
    }
    None
}
