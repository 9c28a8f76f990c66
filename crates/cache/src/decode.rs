//! Decoding of one object, or of its identity if its contents cannot be decoded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use flyball_api::{Key, Object, ResourceVersion, Uid};
use flyball_client::RawObject;
use serde::Deserialize;
use smol_str::SmolStr;

use crate::store::Header;

pub(crate) enum Decoded<T> {
    Object(Arc<T>),
    /// Its identity could be decoded, its contents could not.
    Undecodable(Key, Header, serde_json::Error),
    /// Not even its name could be decoded.
    Unidentified(Unidentified),
    /// It cannot be read as protobuf without loss. Nothing is known about the object: it must be requested as JSON.
    NeedsJson(serde_json::Error),
}

/// Why an object's identity is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unidentified {
    #[error("it is not an object with metadata")]
    Malformed(#[source] serde_json::Error),
    #[error("it has no name")]
    Nameless,
}

/// It is parsed once, unless that fails. What cannot be decoded from protobuf is converted to JSON: if that has it all, the object
/// itself is at fault, or else the schema.
pub(crate) fn decode<T: Object>(object: &RawObject) -> Decoded<T> {
    match guarded(|| object.decode::<T>()) {
        Ok(object) => decoded(object),
        Err(error) if object.is_json() => undecodable(object, error),
        Err(_) => match guarded(|| object.to_json()).map(RawObject::json) {
            Ok(json) => match guarded(|| json.decode::<T>()) {
                Ok(object) => decoded(object),
                Err(error) => undecodable(&json, error),
            },
            Err(error) => Decoded::NeedsJson(error),
        },
    }
}

fn decoded<T: Object>(object: T) -> Decoded<T> {
    match object.meta().name.is_empty() {
        true => Decoded::Unidentified(Unidentified::Nameless),
        false => Decoded::Object(Arc::new(object)),
    }
}

fn undecodable<T>(json: &RawObject, error: serde_json::Error) -> Decoded<T> {
    match json.decode_as::<Bare>() {
        Ok(bare) if bare.metadata.name.is_empty() => Decoded::Unidentified(Unidentified::Nameless),
        Ok(Bare { metadata }) => {
            let header = metadata.header();
            Decoded::Undecodable(Key::new(metadata.namespace, metadata.name), header, error)
        }
        Err(error) => Decoded::Unidentified(Unidentified::Malformed(error)),
    }
}

/// A panic of a decoder is a bug; it must affect only the object that causes it.
fn guarded<T>(decode: impl FnOnce() -> Result<T, serde_json::Error>) -> Result<T, serde_json::Error> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(serde::de::Error::custom("a panic, logged where it happened")))
}

/// The identity of an object, parsed leniently.
#[derive(Deserialize)]
struct Bare {
    metadata: BareMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BareMeta {
    #[serde(default)]
    namespace: SmolStr,
    #[serde(default)]
    name: SmolStr,
    #[serde(default)]
    uid: Uid,
    #[serde(default)]
    resource_version: SmolStr,
    #[serde(default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

impl BareMeta {
    fn header(&self) -> Header {
        Header {
            uid: self.uid.clone(),
            version: self.resource_version.parse().unwrap_or_default(),
            deleting: self.deletion_timestamp.is_some(),
        }
    }
}

pub(crate) fn header(object: &RawObject) -> Option<Header> {
    object.decode_as::<Bare>().ok().map(|bare| bare.metadata.header())
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bookmark {
    pub(crate) version: ResourceVersion,
    /// Whether it marks the end of a streaming list's initial events.
    pub(crate) ends_list: bool,
}

/// `None` if it carries no usable version.
pub(crate) fn bookmark(object: &RawObject) -> Option<Bookmark> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        resource_version: ResourceVersion,
        #[serde(default)]
        annotations: Annotations,
    }
    #[derive(Deserialize, Default)]
    struct Annotations {
        #[serde(default, rename = "k8s.io/initial-events-end")]
        initial_events_end: SmolStr,
    }
    let Object { metadata } = object.decode_as().ok()?;
    let ends_list = metadata.annotations.initial_events_end == "true";
    (!metadata.resource_version.is_unknown())
        .then_some(Bookmark { version: metadata.resource_version, ends_list })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_without_a_usable_version_is_ignored() {
        let end = r#"{"kind":"Pod","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true","x":"y"}}}"#;
        #[rustfmt::skip]
        let table = [
            (end,                                           Some(Bookmark { version: ResourceVersion(7), ends_list: true })),
            (r#"{"metadata":{"resourceVersion":"8"}}"#,     Some(Bookmark { version: ResourceVersion(8), ends_list: false })),
            (r#"{"metadata":{"resourceVersion":""}}"#,      None),
            (r#"{"metadata":{"resourceVersion":"x"}}"#,     None),
            (r#"{"metadata":{}}"#,                          None),
            ("[]",                                          None),
        ];
        for (text, want) in table {
            assert_eq!(bookmark(&RawObject::json(text)), want, "{text}");
        }
    }
}
