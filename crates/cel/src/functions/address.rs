//! IP addresses and CIDRs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Function, overload, text_of};
use crate::error::Error;
use crate::eval::Outcome;
use crate::go::quoted;
use crate::opaque::Opaque;
use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip(IpAddr);

impl Ip {
    pub(crate) fn bytes(self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An address and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    ip: IpAddr,
    bits: u8,
}

impl Cidr {
    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }

    /// The address as a number, shifted until only the prefix is left.
    fn prefix_of(self, ip: IpAddr) -> u128 {
        let (number, width) = number(ip);
        number.checked_shr(width - u32::from(self.bits)).unwrap_or_default()
    }

    fn holds(self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && self.prefix_of(self.ip) == self.prefix_of(ip)
    }

    fn masked(self) -> Self {
        let (_, width) = number(self.ip);
        let kept = self.prefix_of(self.ip).checked_shl(width - u32::from(self.bits)).unwrap_or_default();
        let ip = match self.ip {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(kept).unwrap_or_default())),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(kept)),
        };
        Self { ip, bits: self.bits }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

fn number(ip: IpAddr) -> (u128, u32) {
    match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    }
}

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "ip" => |args| match args {
            [Value::Opaque(Opaque::Cidr(cidr))] => Ok(made(cidr.ip)),
            _ => parse_ip(text_of(args.first())?).map(made),
        },
        "isIP" => |args| Ok(Value::Bool(parse_ip(text_of(args.first())?).is_ok())),
        "ip.isCanonical" => |args| {
            let text = text_of(args.first())?;
            Ok(Value::Bool(parse_ip(text)?.to_string() == text))
        },
        "cidr" => |args| parse_cidr(text_of(args.first())?).map(|cidr| Value::Opaque(Opaque::Cidr(cidr))),
        "isCIDR" => |args| Ok(Value::Bool(parse_cidr(text_of(args.first())?).is_ok())),
        "family" => |args| Ok(Value::Int(if address(args)?.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |args| Ok(Value::Bool(address(args)?.is_unspecified())),
        "isLoopback" => |args| Ok(Value::Bool(address(args)?.is_loopback())),
        "isLinkLocalMulticast" => |args| Ok(Value::Bool(is_link_local_multicast(address(args)?))),
        "isLinkLocalUnicast" => |args| Ok(Value::Bool(is_link_local_unicast(address(args)?))),
        "isGlobalUnicast" => |args| Ok(Value::Bool(is_global_unicast(address(args)?))),
        "containsIP" => |args| match args {
            [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Ip(ip))] => {
                Ok(Value::Bool(cidr.holds(ip.0)))
            }
            [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => {
                // Upstream: cidrContainsIP drops the error of the parser.
                Ok(Value::Bool(cidr.holds(parse_ip(text).map_err(|_| Error::no_such_overload())?)))
            }
            _ => overload(),
        },
        "containsCIDR" => contains_cidr,
        "masked" => |args| match args {
            [Value::Opaque(Opaque::Cidr(cidr))] => Ok(Value::Opaque(Opaque::Cidr(cidr.masked()))),
            _ => overload(),
        },
        "prefixLength" => |args| match args {
            [Value::Opaque(Opaque::Cidr(cidr))] => Ok(Value::Int(i64::from(cidr.bits))),
            _ => overload(),
        },
        _ => return None,
    })
}

fn made<'a>(ip: IpAddr) -> Value<'a> {
    Value::Opaque(Opaque::Ip(Ip(ip)))
}

fn address(args: &[Value<'_>]) -> Result<IpAddr, Error> {
    match args {
        [Value::Opaque(Opaque::Ip(ip))] => Ok(ip.0),
        _ => overload(),
    }
}

fn contains_cidr<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let (cidr, other) = match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Cidr(other))] => (*cidr, *other),
        [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => (*cidr, parse_cidr(text)?),
        _ => return overload(),
    };
    Ok(Value::Bool(cidr.bits <= other.bits && cidr.holds(other.ip)))
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_unspecified()
        && !is_broadcast
        && !ip.is_loopback()
        && !ip.is_multicast()
        && !is_link_local_unicast(ip)
}

fn parse_ip(text: &str) -> Result<IpAddr, Error> {
    let shown = quoted(text);
    let (plain, zone) = text.split_once('%').map_or((text, None), |(plain, zone)| (plain, Some(zone)));
    let ip: IpAddr = plain.parse().map_err(|_| {
        let why = why_not_ip(text);
        Error::new(format!(
            "IP Address {shown} parse error during conversion from string: ParseAddr({shown}): {why}"
        ))
    })?;
    match (ip, zone) {
        (_, Some(zone)) if zone.is_empty() || ip.is_ipv4() => Err(Error::new(format!(
            "IP Address {shown} parse error during conversion from string: ParseAddr({shown}): zone must be a non-empty \
             string"
        ))),
        (_, Some(_)) => Err(Error::new(format!("IP address {shown} with zone value is not allowed"))),
        (IpAddr::V6(six), _) if six.to_ipv4_mapped().is_some() => {
            Err(Error::new(format!("IPv4-mapped IPv6 address {shown} is not allowed")))
        }
        _ => Ok(ip),
    }
}

/// Go's error for an invalid address.
fn why_not_ip(text: &str) -> String {
    let first = text.find(['.', ':', '%']).and_then(|at| text.get(at..=at));
    match first {
        Some(".") => why_not_ipv4(text),
        Some(":") => "invalid IPv6".to_owned(),
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    }
}

fn why_not_ipv4(text: &str) -> String {
    let (mut value, mut digits, mut fields) = (0_u32, 0, 0);
    for (at, c) in text.char_indices() {
        match c.to_digit(10) {
            Some(_) if digits == 1 && value == 0 => {
                return "IPv4 field has octet with leading zero".to_owned();
            }
            Some(digit) => {
                (value, digits) = (value * 10 + digit, digits + 1);
                if value > 255 {
                    return "IPv4 field has value >255".to_owned();
                }
            }
            None if c == '.' => {
                let is_empty = at == 0 || at == text.len() - 1 || digits == 0;
                if is_empty {
                    return format!("IPv4 field must have at least one digit (at {})", quoted(&text[at..]));
                }
                if fields == 3 {
                    return "IPv4 address too long".to_owned();
                }
                (value, digits, fields) = (0, 0, fields + 1);
            }
            None => return format!("unexpected character (at {})", quoted(&text[at..])),
        }
    }
    "IPv4 address too short".to_owned()
}

fn parse_cidr(text: &str) -> Result<Cidr, Error> {
    let shown = quoted(text);
    let wrapped = |why: String| {
        Error::new(format!(
            "network address parse error during conversion from string: network address parse error \
                            during conversion from string: netip.ParsePrefix({shown}): {why}"
        ))
    };
    let Some((ip, bits)) = text.rsplit_once('/') else { return Err(wrapped("no '/'".to_owned())) };
    let parsed: IpAddr = ip.parse().map_err(|_| {
        let (shown, why) = (quoted(ip), why_not_ip(ip));
        match ip.contains('%') {
            true => wrapped("IPv6 zones cannot be present in a prefix".to_owned()),
            false => wrapped(format!("ParseAddr({shown}): {why}")),
        }
    })?;
    let bad = || wrapped(format!("bad bits after slash: {}", quoted(bits)));
    let is_plain = !bits.is_empty()
        && bits.chars().all(|c| c.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    let bits: u8 = if is_plain { bits.parse().map_err(|_| bad())? } else { return Err(bad()) };
    if bits > most {
        return Err(wrapped("prefix length out of range".to_owned()));
    }
    match parsed {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => Err(Error::new(format!(
            "network address parse error during conversion from string: IPv4-mapped IPv6 address {shown} is not allowed"
        ))),
        ip => Ok(Cidr { ip, bits }),
    }
}
