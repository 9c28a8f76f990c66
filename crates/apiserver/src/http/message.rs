//! Objects, lists and events of watches in protocol buffers, for the kinds that have messages.

use bytes::Bytes;
use flyball_api::protobuf::{self, Message};
use serde_json::Value;

use crate::error::ApiError;
use crate::resource::Resource;

pub(crate) const MEDIA_TYPE: &str = protobuf::MEDIA_TYPE;
pub(crate) const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
pub(crate) const METADATA: (&str, &str) = ("meta.k8s.io/v1", "PartialObjectMetadata");

/// Whether whole objects of a resource have a message.
pub(crate) fn is_offered(resource: &Resource) -> bool {
    Message::of_kind(&resource.api_version(), &resource.kind).is_some()
}

/// An object in its envelope; `None` if its kind has no message.
pub(crate) fn object(object: &Value) -> Option<Result<Bytes, ApiError>> {
    let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    Message::of_kind(version, kind)?;
    Some(of_kind((version, kind), object).map(|raw| envelope((version, kind), &raw)))
}

/// The message of an object of a kind, without an envelope.
pub(crate) fn of_kind((version, kind): (&str, &str), object: &Value) -> Result<Bytes, ApiError> {
    let failed = |why: &dyn std::fmt::Display| ApiError::internal(format!("{version} {kind}: {why}"));
    let message = Message::of_kind(version, kind).ok_or_else(|| failed(&"it has no message"))?;
    protobuf::encode(message, object).map(Bytes::from).map_err(|error| failed(&error))
}

pub(crate) fn envelope((version, kind): (&str, &str), raw: &[u8]) -> Bytes {
    protobuf::envelope(version, kind, raw).into()
}

/// A list in its envelope. `kind` is that of the list.
pub(crate) fn list(kind: (&str, &str), metadata: &Value, items: &[Bytes]) -> Result<Bytes, ApiError> {
    let raw = protobuf::encode_list(metadata, items.iter().map(|item| &item[..]));
    raw.map(|raw| envelope(kind, &raw)).map_err(|error| ApiError::internal(error.to_string()))
}

/// An event of a watch; `object` is in its envelope.
pub(crate) fn frame(type_: &str, object: &[u8]) -> Bytes {
    protobuf::frame(type_, object).into()
}
