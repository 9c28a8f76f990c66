//! Protobuf and JSON: which is requested for which resource, and objects in either as the server sent them.

use bytes::Bytes;
use flyball_api::protobuf::{self, Envelope, Message};
use flyball_api::{Object, ResourceType};
use http::header::{CONTENT_TYPE, HeaderMap};
use serde::de::DeserializeOwned;

/// Built-in groups whose objects stay JSON, because their exact bytes are compared or written: the templates of workloads.
/// ControllerRevisions record them, names have their hash, and a Deployment finds its ReplicaSet by comparing them. What an
/// API server of another version omits from JSON (`null`, `{}`) cannot be told from protobuf, nor can the type of a claim that
/// is part of a StatefulSet.
const EXACT: [&str; 1] = ["apps"];

/// Whether objects of this resource are requested as protobuf: the built-in kinds, but for those whose exact bytes matter.
/// Subresources have types of their own.
pub(crate) fn is_offered(resource: &ResourceType, subresource: Option<&str>) -> bool {
    !EXACT.contains(&resource.group.as_str())
        && matches!(subresource, None | Some("status"))
        && Message::of_kind(&resource.api_version(), &resource.kind).is_some()
}

/// The encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// That of a response with these headers. What has no known content type is taken as JSON.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let content_type =
            headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default();
        match media_type.trim().eq_ignore_ascii_case(protobuf::MEDIA_TYPE) {
            true => Self::Protobuf,
            false => Self::Json,
        }
    }
}

/// An object as the server sent it, not decoded yet.
#[derive(Debug, Clone)]
pub struct RawObject {
    bytes: Bytes,
    /// Its message, if the bytes are protobuf.
    message: Option<&'static Message>,
}

impl RawObject {
    pub fn json(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), message: None }
    }

    /// A message without its envelope.
    pub fn protobuf(message: &'static Message, bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), message: Some(message) }
    }

    /// An object in its envelope, which is removed.
    pub(crate) fn in_envelope(bytes: &Bytes) -> serde_json::Result<Self> {
        let envelope = Envelope::open(bytes)?;
        Ok(Self::protobuf(envelope.message()?, bytes.slice_ref(envelope.raw)))
    }

    pub fn is_json(&self) -> bool {
        self.message.is_none()
    }

    /// Decodes it. Protobuf with a field that the schema does not have is an error if the type keeps JSON at that place.
    pub fn decode<T: Object>(&self) -> serde_json::Result<T> {
        match self.message {
            None => T::from_json(&self.bytes),
            Some(message) => T::from_protobuf(message, &self.bytes),
        }
    }

    /// The same for any type.
    pub fn decode_as<O: DeserializeOwned>(&self) -> serde_json::Result<O> {
        match self.message {
            None => serde_json::from_slice(&self.bytes),
            Some(message) => protobuf::decode(message, &self.bytes),
        }
    }

    /// The object as JSON. Nothing is lost: protobuf with a field that the schema does not have is an error.
    pub fn to_json(&self) -> serde_json::Result<Bytes> {
        match self.message {
            None => Ok(self.bytes.clone()),
            Some(message) => protobuf::to_json(message, &self.bytes).map(Bytes::from),
        }
    }
}

impl PartialEq for RawObject {
    fn eq(&self, other: &Self) -> bool {
        let messages = (self.message.map(std::ptr::from_ref), other.message.map(std::ptr::from_ref));
        self.bytes == other.bytes && messages.0 == messages.1
    }
}

impl Eq for RawObject {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_without_exact_bytes_are_requested_as_protobuf() {
        #[rustfmt::skip]
        let table = [
            // group, version, plural, kind, subresource
            ("", "v1", "pods", "Pod", None,                                         true),
            ("", "v1", "pods", "Pod", Some("status"),                               true),
            ("", "v1", "pods", "Pod", Some("eviction"),                             false),
            ("", "v1", "secrets", "Secret", None,                                   true),
            ("coordination.k8s.io", "v1", "leases", "Lease", None,                  true),
            ("batch", "v1", "jobs", "Job", None,                                    true),
            ("apps", "v1", "controllerrevisions", "ControllerRevision", None,       false),
            ("apps", "v1", "replicasets", "ReplicaSet", None,                       false),
            ("apps", "v1", "replicasets", "ReplicaSet", Some("scale"),              false),
            // A version or a kind that the schema does not have, and custom resources.
            ("coordination.k8s.io", "v9", "leases", "Lease", None,                  false),
            ("", "v1", "news", "News", None,                                        false),
            ("example.com", "v1", "widgets", "Widget", None,                        false),
            ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", None, false),
        ];
        for (group, version, plural, kind, subresource, want) in table {
            let resource = ResourceType {
                group: group.into(),
                version: version.into(),
                plural: plural.into(),
                kind: kind.into(),
                namespaced: true,
            };
            assert_eq!(is_offered(&resource, subresource), want, "{resource} {subresource:?}");
        }
    }

    #[test]
    fn the_content_type_decides() {
        #[rustfmt::skip]
        let table = [
            (None,                                                  Encoding::Json),
            (Some("application/json"),                              Encoding::Json),
            (Some("application/json;stream=watch"),                 Encoding::Json),
            (Some("application/vnd.kubernetes.protobuf"),           Encoding::Protobuf),
            (Some("Application/Vnd.Kubernetes.Protobuf ; stream=watch"), Encoding::Protobuf),
            (Some("application/vnd.kubernetes.protobuf2"),          Encoding::Json),
            (Some("text/html"),                                     Encoding::Json),
        ];
        for (content_type, want) in table {
            let mut headers = HeaderMap::new();
            if let Some(content_type) = content_type {
                headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
            }
            assert_eq!(Encoding::of(&headers), want, "{content_type:?}");
        }
    }
}
