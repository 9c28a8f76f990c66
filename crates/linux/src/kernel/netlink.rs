//! Netlink: messages as bytes, and the socket that carries them. What is inside is up to the families (`addresses`, `routes`,
//! `nftables`, `flows`).

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::sockopt::{ReceiveTimeout, SndBufForce};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendmsg, setsockopt,
    socket,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

pub(super) const REQUEST: u16 = 0x1;
pub(super) const ACK: u16 = 0x4;
pub(super) const DUMP: u16 = 0x300;
pub(super) const REPLACE: u16 = 0x100;
pub(super) const EXCL: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;
pub(super) const APPEND: u16 = 0x800;
const NESTED: u16 = 0x8000;
/// The type of an attribute without its flags.
const KIND: u16 = 0x3fff;
const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// A dump was interrupted by a change: it may be inconsistent.
const INTERRUPTED: u16 = 0x10;
/// The kernel fills at most 32 KiB of a dump at a time.
const BUFFER: usize = 64 << 10;
/// The kernel answers at once, or not at all.
const TIMEOUT: i64 = 5;
/// How large a transaction may be: some ten thousand rules.
const LARGEST: usize = 64 << 20;
/// How often a dump is repeated if changes interrupt it.
const DUMPS: usize = 10;

/// Messages that are being written. Lengths are filled in when what they enclose ends.
#[derive(Debug, Default)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    count: u32,
}

impl Messages {
    /// Appends a message with the fixed part of its family, and the attributes that `fill` writes.
    pub(super) fn add(&mut self, kind: u16, flags: u16, fixed: &[u8], fill: impl FnOnce(&mut Attributes)) {
        self.count += 1;
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(fixed);
        pad(&mut self.bytes);
        let mut attributes = Attributes(std::mem::take(&mut self.bytes));
        fill(&mut attributes);
        self.bytes = attributes.0;
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    pub(super) fn one(kind: u16, flags: u16, fixed: &[u8], fill: impl FnOnce(&mut Attributes)) -> Self {
        let mut messages = Self::default();
        messages.add(kind, flags, fixed, fill);
        messages
    }
}

/// The attributes of a message that is being written.
#[derive(Debug)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        pad(&mut self.0);
        self
    }

    /// A text with the zero that ends it.
    pub(super) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// In network order, as netfilter has its numbers.
    pub(super) fn be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// In the order of the machine, as rtnetlink has its numbers.
    pub(super) fn ne32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) -> &mut Self {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend((kind | NESTED).to_ne_bytes());
        fill(self);
        let length = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The attributes in `bytes`, as far as they are well formed.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & KIND;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the attribute `kind`.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A message that was received, without its header.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) kind: u16,
    pub(super) body: Vec<u8>,
}

pub(super) struct Socket(OwnedFd);

impl Socket {
    pub(super) fn open(protocol: SockProtocol) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::new(TIMEOUT, 0))?;
        Ok(Self(socket))
    }

    /// A socket that receives notifications of changes, with this timeout.
    pub(super) fn listening(protocol: SockProtocol, groups: u32, patience: Duration) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        let micros = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX);
        setsockopt(&socket, ReceiveTimeout, &TimeVal::microseconds(micros))?;
        Ok(Self(socket))
    }

    /// What has changed; `None` if nothing has for so long.
    pub(super) fn news(&self) -> io::Result<Option<Vec<Reply>>> {
        let bytes = match self.receive() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let reply = |message: io::Result<(Header, &[u8])>| {
            message.map(|(header, body)| Reply { kind: header.kind, body: body.to_vec() })
        };
        split(&bytes).map(reply).collect::<io::Result<_>>().map(Some)
    }

    /// Sends messages of which the last but `trailing` asks for an acknowledgement; the first error of any of them.
    pub(super) fn execute(&self, messages: &Messages, trailing: u32) -> io::Result<()> {
        if messages.bytes.len() > BUFFER {
            setsockopt(&self.0, SndBufForce, &messages.bytes.len().min(LARGEST))?;
        }
        self.send(messages)?;
        let last = messages.count - trailing;
        let mut result = Ok(());
        loop {
            for message in split(&self.receive()?) {
                let (header, body) = message?;
                if header.kind != ERROR {
                    continue;
                }
                let code = error_code(body)?;
                if code != 0 && result.is_ok() {
                    result = Err(io::Error::from_raw_os_error(-code));
                }
                if header.sequence == last || (code != 0 && header.sequence == 0) {
                    return result;
                }
            }
        }
    }

    /// All replies to a dump.
    pub(super) fn dump(&self, message: &Messages) -> io::Result<Vec<Reply>> {
        for _ in 0..DUMPS {
            if let Some(replies) = self.dump_once(message)? {
                return Ok(replies);
            }
        }
        Err(io::Error::other("the state changes faster than it can be read"))
    }

    /// `None` if it was interrupted.
    fn dump_once(&self, message: &Messages) -> io::Result<Option<Vec<Reply>>> {
        self.send(message)?;
        let (mut replies, mut is_consistent) = (vec![], true);
        loop {
            for message in split(&self.receive()?) {
                let (header, body) = message?;
                is_consistent &= header.flags & INTERRUPTED == 0;
                match header.kind {
                    DONE => return Ok(is_consistent.then_some(replies)),
                    ERROR => match error_code(body)? {
                        0 => return Ok(Some(replies)),
                        code => return Err(io::Error::from_raw_os_error(-code)),
                    },
                    kind => replies.push(Reply { kind, body: body.to_vec() }),
                }
            }
        }
    }

    fn send(&self, messages: &Messages) -> io::Result<()> {
        let bytes = [IoSlice::new(&messages.bytes)];
        sendmsg(self.0.as_raw_fd(), &bytes, &[], MsgFlags::empty(), Some(&NetlinkAddr::new(0, 0)))?;
        Ok(())
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; BUFFER];
        let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        buffer.truncate(length);
        Ok(buffer)
    }
}

/// The header of a message that was received.
pub(super) struct Header {
    kind: u16,
    flags: u16,
    sequence: u32,
}

/// The messages in `bytes`, each with its body; an error for one that is cut off, which is the last.
pub(super) fn split(bytes: &[u8]) -> impl Iterator<Item = io::Result<(Header, &[u8])>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((header, length)) = header(rest) else {
            rest = &[];
            return Some(Err(io::Error::other("the kernel sent a message that is cut off")));
        };
        let body = &rest[HEADER..length];
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((header, body)))
    })
}

/// The header of the first message, and its length.
fn header(bytes: &[u8]) -> Option<(Header, usize)> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let length = word(0)? as usize;
    let header = Header { kind: half(4)?, flags: half(6)?, sequence: word(8)? };
    (HEADER..=bytes.len()).contains(&length).then_some((header, length))
}

pub(super) fn error_code(body: &[u8]) -> io::Result<i32> {
    let code = body.get(..4).and_then(|code| code.try_into().ok());
    code.map(i32::from_ne_bytes).ok_or_else(|| io::Error::other("the kernel sent an error that is cut off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let messages = Messages::one(7, ACK, &[1, 2, 3, 4], |message| {
            message.text(1, "ab").nested(2, |inner| {
                inner.be32(1, 5).bytes(2, &[9]);
            });
        });
        let (header, body) = split(&messages.bytes).next().unwrap().unwrap();
        assert_eq!((header.kind, header.flags, header.sequence), (7, ACK | REQUEST, 1));
        assert_eq!(attribute(&body[4..], 1), Some(&b"ab\0"[..]));
        let nested = attribute(&body[4..], 2).unwrap();
        assert_eq!(attributes(nested).collect::<Vec<_>>(), [(1, &[0, 0, 0, 5][..]), (2, &[9][..])]);
    }

    #[test]
    fn what_is_cut_off_is_an_error_or_nothing() {
        let messages = Messages::one(7, 0, &[], |message| {
            message.text(1, "some text");
        });
        for end in 1..messages.bytes.len() {
            assert!(split(&messages.bytes[..end]).next().unwrap().is_err(), "{end}");
        }
        let attribute_bytes = &messages.bytes[HEADER..];
        for end in 0..13 {
            assert_eq!(attributes(&attribute_bytes[..end]).count(), 0, "{end}");
        }
        // A length that is shorter than the attribute's own header.
        assert_eq!(attributes(&[2, 0, 1, 0]).count(), 0);
    }
}
