//! Kubernetes' protocol buffers, without a generated type per kind: a table of all messages (`schema.txt`, which
//! `tools/controlplane/protobuf` prints), and a decoder that presents a message to serde as the map that it is in JSON.
//!
//! [`Envelope`] is how a response begins, [`List`] and [`WatchEvent`] are what it may contain. [`decode`] reads an object into
//! any type that can be decoded from JSON; [`to_json`] writes it as the API server would. Protobuf and JSON differ in what
//! they leave out: protobuf always has the fields that are not pointers, JSON omits many of them if they are empty. Both
//! functions omit what JSON omits.
//!
//! The other way, [`encode`] writes an object, [`encode_list`] a list and [`frame`] an event of a watch, as the API server does.
//!
//! Nothing is lost: `decode` skips fields that the schema does not have, as a slim type skips those that it does not read, but
//! where a type keeps JSON to copy it ([`RawJson`](crate::RawJson)), such a field is an error. The caller then requests JSON.

mod de;
mod encode;
mod envelope;
mod json;
#[doc(hidden)]
pub mod sample;
mod schema;
mod value;
mod wire;

pub use encode::{encode, encode_list, envelope, frame};
pub use envelope::{Envelope, List, WatchEvent};
pub use schema::Message;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Reads a message into any type.
pub fn decode<'de, T: serde::Deserialize<'de>>(
    message: &'static Message,
    bytes: &'de [u8],
) -> serde_json::Result<T> {
    T::deserialize(de::MessageDeserializer { message, bytes, depth: de::MAX_DEPTH })
}

/// Writes a message as the JSON that the API server would send, without its type, as in a list.
pub fn to_json(message: &'static Message, bytes: &[u8]) -> serde_json::Result<String> {
    json::of_message(message, bytes, de::MAX_DEPTH)
}

#[cfg(test)]
mod tests;
