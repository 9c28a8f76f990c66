//! The envelope of Kubernetes' protobuf: a magic number, and a message with the type and the bytes of the object.

use super::schema::Message;
use super::wire::{Fields, Result, error};

const MAGIC: &[u8] = b"k8s\0";

/// An object in its envelope.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    /// The message of the object.
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Whether these bytes are in an envelope. JSON never is.
    pub fn is_there(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let bytes = bytes.strip_prefix(MAGIC).ok_or_else(|| error("the magic number is missing"))?;
        let mut envelope = Self { api_version: "", kind: "", raw: &[] };
        let mut fields = Fields::of(bytes);
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => {
                    let mut type_meta = Fields::of(wire.bytes()?);
                    while let Some((number, wire)) = type_meta.next()? {
                        match number {
                            1 => envelope.api_version = wire.text()?,
                            2 => envelope.kind = wire.text()?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.raw = wire.bytes()?,
                // The encoding of `raw`, which is never set.
                3 if !wire.is_empty() => return Err(error("an object is encoded a second time")),
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// The message of its kind.
    pub fn message(&self) -> Result<&'static Message> {
        Message::of_kind(self.api_version, self.kind)
            .ok_or_else(|| error(&format!("{} {:?} is not in the schema", self.api_version, self.kind)))
    }

    /// The message of the elements, if it is a list.
    pub fn item_message(&self) -> Result<&'static Message> {
        let kind = self.kind.strip_suffix("List").ok_or_else(|| error("a list is missing"))?;
        Envelope { kind, ..*self }.message()
    }

    /// The object as JSON, with its type.
    pub fn to_json(&self) -> Result<String> {
        super::json::of_object(self.message()?, self.raw, (self.api_version, self.kind))
    }
}

/// A list: all lists have the same two fields.
#[derive(Debug, Default)]
pub struct List<'a> {
    pub resource_version: &'a str,
    /// The continue token; empty on the last page.
    pub continue_: &'a str,
    pub remaining: Option<i64>,
    /// The message of each object.
    pub items: Vec<&'a [u8]>,
}

impl<'a> List<'a> {
    pub fn open(raw: &'a [u8]) -> Result<Self> {
        let mut list = Self::default();
        let mut fields = Fields::of(raw);
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => {
                    let mut metadata = Fields::of(wire.bytes()?);
                    while let Some((number, wire)) = metadata.next()? {
                        match number {
                            2 => list.resource_version = wire.text()?,
                            3 => list.continue_ = wire.text()?,
                            4 => list.remaining = Some(wire.number()?),
                            _ => {}
                        }
                    }
                }
                2 => list.items.push(wire.bytes()?),
                _ => {}
            }
        }
        Ok(list)
    }
}

/// An event of a watch: its type, and the object in its envelope.
#[derive(Debug, Clone, Copy, Default)]
pub struct WatchEvent<'a> {
    pub type_: &'a str,
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    pub fn open(frame: &'a [u8]) -> Result<Self> {
        let mut event = Self::default();
        let mut fields = Fields::of(frame);
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => event.type_ = wire.text()?,
                2 => {
                    event.object =
                        Fields::of(wire.bytes()?).find(1)?.map_or(Ok(&[][..]), |raw| raw.bytes())?
                }
                _ => {}
            }
        }
        Ok(event)
    }
}
