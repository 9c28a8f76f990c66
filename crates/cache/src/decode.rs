//! Decoding of one object, or of its identity if its contents cannot be decoded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use flyball_api::{Key, Object, ResourceVersion, Uid};
use serde::Deserialize;
use smol_str::SmolStr;

use crate::store::Header;

pub(crate) enum Decoded<T> {
    Object(Arc<T>),
    /// Its identity could be decoded, its contents could not.
    Undecodable(Key, Header, serde_json::Error),
    /// Not even its name could be decoded.
    Unidentified(Unidentified),
}

/// Why an object's identity is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unidentified {
    #[error("it is not an object with metadata")]
    Malformed(#[source] serde_json::Error),
    #[error("it has no name")]
    Nameless,
}

/// The bytes are parsed once, unless that fails.
pub(crate) fn decode<T: Object>(bytes: &[u8]) -> Decoded<T> {
    match guarded::<T>(bytes) {
        Ok(object) if object.meta().name.is_empty() => Decoded::Unidentified(Unidentified::Nameless),
        Ok(object) => Decoded::Object(Arc::new(object)),
        Err(error) => match serde_json::from_slice::<Bare>(bytes) {
            Ok(bare) if bare.metadata.name.is_empty() => Decoded::Unidentified(Unidentified::Nameless),
            Ok(Bare { metadata }) => {
                let header = metadata.header();
                Decoded::Undecodable(Key::new(metadata.namespace, metadata.name), header, error)
            }
            Err(error) => Decoded::Unidentified(Unidentified::Malformed(error)),
        },
    }
}

/// A panic of a decoder is a bug; it must affect only the object that causes it.
fn guarded<T: Object>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    catch_unwind(AssertUnwindSafe(|| T::from_json(bytes)))
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

pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    serde_json::from_slice::<Bare>(bytes).ok().map(|bare| bare.metadata.header())
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bookmark {
    pub(crate) version: ResourceVersion,
    /// Whether it marks the end of a streaming list's initial events.
    pub(crate) ends_list: bool,
}

/// `None` if it carries no usable version.
pub(crate) fn bookmark(bytes: &[u8]) -> Option<Bookmark> {
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
    let Object { metadata } = serde_json::from_slice(bytes).ok()?;
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
            assert_eq!(bookmark(text.as_bytes()), want, "{text}");
        }
    }
}
