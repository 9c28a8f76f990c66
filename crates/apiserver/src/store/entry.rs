//! One stored state of one object, serialised once. The bytes are also a complete watch event, so that serving an
//! object to many watchers and in lists copies nothing.

use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
pub use flyball_api::Key;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use smol_str::SmolStr;

/// What happened to an object, as a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    Added,
    Modified,
    Deleted,
}

impl Happened {
    /// The type of the event.
    pub fn name(self) -> &'static str {
        match self {
            Happened::Added => "ADDED",
            Happened::Modified => "MODIFIED",
            Happened::Deleted => "DELETED",
        }
    }

    fn prefix(self) -> &'static [u8] {
        match self {
            Happened::Added => br#"{"type":"ADDED","object":"#,
            Happened::Modified => br#"{"type":"MODIFIED","object":"#,
            Happened::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

const FRAME_END: &[u8] = b"}\n";

/// The parts of an object that selectors match, extracted when it is written.
#[derive(Debug, Clone, Default)]
pub struct Facets {
    pub labels: Box<[(SmolStr, SmolStr)]>,
    /// Values of the kind's selectable fields, in the order of its `field_labels`.
    pub fields: Box<[SmolStr]>,
}

/// One state of an object.
#[derive(Debug)]
pub struct Entry {
    pub version: u64,
    pub key: Key,
    pub facets: Facets,
    happened: Happened,
    frame: Bytes,
    /// Where, in the frame, the fields after `kind` and `apiVersion` begin.
    kind_end: usize,
    partial: OnceLock<Bytes>,
    message: OnceLock<Bytes>,
}

impl Entry {
    /// Serialises a state. `object` must already have `version`.
    pub fn new(version: u64, key: Key, facets: Facets, happened: Happened, object: &Value) -> Self {
        let mut buffer = BytesMut::with_capacity(2048).writer();
        buffer.get_mut().put_slice(happened.prefix());
        let kind_end = write_object(&mut buffer, object);
        let mut buffer = buffer.into_inner();
        buffer.put_slice(FRAME_END);
        Self {
            version,
            key,
            facets,
            happened,
            frame: buffer.freeze(),
            kind_end,
            partial: OnceLock::new(),
            message: OnceLock::new(),
        }
    }

    /// The same state, with what selectors match in it extracted differently.
    pub(super) fn with_facets(&self, facets: Facets) -> Self {
        let (key, frame, partial) = (self.key.clone(), self.frame.clone(), self.partial.clone());
        Self { facets, key, frame, partial, message: self.message.clone(), ..*self }
    }

    /// The object as compact JSON.
    pub fn json(&self) -> Bytes {
        self.frame.slice(self.happened.prefix().len()..self.frame.len() - FRAME_END.len())
    }

    /// The JSON after `{"kind":…,"apiVersion":…,`: the other fields and the closing brace.
    pub fn json_without_kind(&self) -> Bytes {
        self.frame.slice(self.kind_end..self.frame.len() - FRAME_END.len())
    }

    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json()).unwrap_or(Value::Null)
    }

    /// A line of a watch: shared bytes if the state was written by this type of event.
    pub fn frame(&self, happened: Happened) -> Bytes {
        if happened == self.happened { self.frame.clone() } else { frame(happened, &self.json()) }
    }

    /// The object reduced to `PartialObjectMetadata`.
    pub fn partial(&self) -> Bytes {
        self.partial.get_or_init(|| partial(&self.json())).clone()
    }

    /// The object in protocol buffers, which `encode` makes at the first time.
    pub(crate) fn message<E>(&self, encode: impl FnOnce(&Value) -> Result<Bytes, E>) -> Result<Bytes, E> {
        match self.message.get() {
            Some(message) => Ok(message.clone()),
            None => encode(&self.value()).map(|message| self.message.get_or_init(|| message).clone()),
        }
    }

    /// The size in bytes, to bound the history.
    pub fn size(&self) -> usize {
        self.frame.len() + 256
    }
}

/// Writes `kind`, `apiVersion`, `metadata` first and the rest in order, as Go does; returns where the fields after
/// `apiVersion` begin. Writing into memory cannot fail: keys are texts and the buffer grows.
fn write_object(buffer: &mut bytes::buf::Writer<BytesMut>, object: &Value) -> usize {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let Some(map) = object.as_object() else {
        let _ = serde_json::to_writer(&mut *buffer, object);
        return buffer.get_ref().len();
    };
    let first = FIRST.iter().filter_map(|name| map.get_key_value(*name));
    let rest = map.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    let mut kind_end = buffer.get_ref().len() + 1;
    for (at, (name, value)) in first.chain(rest).enumerate() {
        buffer.get_mut().put_u8(if at == 0 { b'{' } else { b',' });
        let _ = serde_json::to_writer(&mut *buffer, name);
        buffer.get_mut().put_u8(b':');
        let _ = serde_json::to_writer(&mut *buffer, value);
        if name == "kind" || name == "apiVersion" {
            kind_end = buffer.get_ref().len() + 1;
        }
    }
    if map.is_empty() {
        buffer.get_mut().put_u8(b'{');
    }
    buffer.get_mut().put_u8(b'}');
    kind_end
}

/// A line of a watch around any object.
pub fn frame(happened: Happened, json: &[u8]) -> Bytes {
    let mut buffer = BytesMut::with_capacity(json.len() + 40);
    buffer.put_slice(happened.prefix());
    buffer.put_slice(json);
    buffer.put_slice(FRAME_END);
    buffer.freeze()
}

fn partial(json: &[u8]) -> Bytes {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let metadata = serde_json::from_slice::<Part<'_>>(json).map_or("{}", |part| part.metadata.get());
    let mut buffer = BytesMut::with_capacity(metadata.len() + 80);
    buffer.put_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#);
    buffer.put_slice(metadata.as_bytes());
    buffer.put_slice(b"}");
    buffer.freeze()
}
