//! Resources of the API, and the traits that connect a Rust type with one.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use smol_str::SmolStr;

use crate::meta::ObjectMeta;
use crate::protobuf::Message;
use crate::{Key, Uid};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceType {
    /// Empty for the core group.
    pub group: SmolStr,
    /// Such as `v1`.
    pub version: SmolStr,
    /// The name in paths, such as `replicasets`.
    pub plural: SmolStr,
    /// The name in objects, such as `ReplicaSet`.
    pub kind: SmolStr,
    pub namespaced: bool,
}

impl ResourceType {
    /// For resources known at compile time.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: SmolStr::new_static(group),
            version: SmolStr::new_static(version),
            plural: SmolStr::new_static(plural),
            kind: SmolStr::new_static(kind),
            namespaced,
        }
    }

    /// The `apiVersion` of its objects: `v1` or `apps/v1`.
    pub fn api_version(&self) -> SmolStr {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            smol_str::format_smolstr!("{}/{}", self.group, self.version)
        }
    }

    /// Whether its objects, or responses about them, hold secrets: errors must not quote their contents.
    pub fn holds_secrets(&self) -> bool {
        // Tokens are requested as a subresource of the account.
        self.group.is_empty() && matches!(&*self.plural, "secrets" | "serviceaccounts")
    }

    /// The request path of the collection, of one object, or of a subresource.
    ///
    /// Names are percent-encoded, though the API allows only path-safe ones.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>) -> String {
        let mut path = String::with_capacity(96);
        path.push_str(if self.group.is_empty() { "/api" } else { "/apis" });
        let namespace = namespace.filter(|n| self.namespaced && !n.is_empty());
        let segments = [
            Some(self.group.as_str()).filter(|g| !g.is_empty()),
            Some(self.version.as_str()),
            namespace.map(|_| "namespaces"),
            namespace,
            Some(self.plural.as_str()),
            name,
            name.and(subresource),
        ];
        for segment in segments.into_iter().flatten() {
            path.push('/');
            push_encoded(&mut path, segment);
        }
        path
    }
}

/// Encodes a path segment (RFC 3986): unreserved characters and `:` are kept (RBAC names have colons). So no name can change
/// the path.
fn push_encoded(path: &mut String, segment: &str) {
    for byte in segment.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                path.push(char::from(byte))
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// An object of the API: it can be decoded from JSON and has metadata.
pub trait Object: DeserializeOwned + Send + Sync + 'static {
    /// Whether it is metadata only, so that only metadata is requested.
    const IS_METADATA: bool = false;

    /// Decodes JSON. Implemented for each type rather than here, so that the decoder is compiled once, in the crate of the type
    /// and with its optimisation level.
    fn from_json(json: &[u8]) -> serde_json::Result<Self>;

    /// Decodes a protobuf message of any kind that has its fields. Implemented for each type for the same reason.
    fn from_protobuf(message: &'static Message, bytes: &[u8]) -> serde_json::Result<Self>;

    fn meta(&self) -> &ObjectMeta;

    /// Its name within its resource.
    fn key(&self) -> Key {
        self.meta().key()
    }

    fn uid(&self) -> &Uid {
        &self.meta().uid
    }

    fn is_deleting(&self) -> bool {
        self.meta().is_deleting()
    }
}

/// An [`Object`] whose resource is known at compile time.
pub trait Resource: Object {
    const TYPE: ResourceType;
}

/// The body of a PUT or POST: the object with its type.
pub fn manifest<T: Resource + Serialize>(object: &T) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(object)?;
    if let Value::Object(fields) = &mut value {
        let kind = T::TYPE;
        fields.insert("apiVersion".into(), kind.api_version().as_str().into());
        fields.insert("kind".into(), kind.kind.as_str().into());
    }
    Ok(value)
}

/// The body of a PUT on `/status`: the metadata as it was read (omitted metadata would be removed) and the new status. The
/// rest of the object is ignored.
pub fn manifest_with_status<T: Resource>(object: &T, status: &impl Serialize) -> Value {
    status_manifest(&T::TYPE, object.meta(), status)
}

/// The same for an object of which only the metadata is known.
pub fn status_manifest(kind: &ResourceType, metadata: &ObjectMeta, status: &impl Serialize) -> Value {
    serde_json::json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": metadata,
        "status": status,
    })
}

/// Declares the resource of a type with a `metadata` field:
/// `resource!(Pod, "", "v1", "pods", "Pod", namespaced)` or `resource!(Node, "", "v1", "nodes", "Node", cluster)`.
#[macro_export]
macro_rules! resource {
    ($type:ty, $group:literal, $version:literal, $plural:literal, $kind:literal, namespaced) => {
        $crate::resource!(@ $type, $group, $version, $plural, $kind, true);
    };
    ($type:ty, $group:literal, $version:literal, $plural:literal, $kind:literal, cluster) => {
        $crate::resource!(@ $type, $group, $version, $plural, $kind, false);
    };
    (@ $type:ty, $group:literal, $version:literal, $plural:literal, $kind:literal, $namespaced:literal) => {
        impl $crate::Object for $type {
            fn from_json(json: &[u8]) -> $crate::json::Result<Self> {
                $crate::json::from_slice(json)
            }

            fn from_protobuf(
                message: &'static $crate::protobuf::Message,
                bytes: &[u8],
            ) -> $crate::json::Result<Self> {
                $crate::protobuf::decode(message, bytes)
            }

            fn meta(&self) -> &$crate::ObjectMeta {
                &self.metadata
            }
        }
        impl $crate::Resource for $type {
            const TYPE: $crate::ResourceType =
                $crate::ResourceType::new($group, $version, $plural, $kind, $namespaced);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);
    const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);
    const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);

    #[test]
    fn paths_follow_group_scope_and_depth() {
        #[rustfmt::skip]
        let table = [
            (PODS.path(None, None, None),                                  "/api/v1/pods"),
            (PODS.path(Some("a"), None, None),                             "/api/v1/namespaces/a/pods"),
            (PODS.path(Some("a"), Some("b"), Some("status")),              "/api/v1/namespaces/a/pods/b/status"),
            (DEPLOYMENTS.path(Some("a"), Some("b"), None),                 "/apis/apps/v1/namespaces/a/deployments/b"),
            (NODES.path(Some("ignored"), Some("n"), None),                 "/api/v1/nodes/n"),
            (NODES.path(None, Some("system:x"), None),                     "/api/v1/nodes/system:x"),
            (NODES.path(None, Some("../a?b"), None),                       "/api/v1/nodes/..%2Fa%3Fb"),
        ];
        for (got, want) in table {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn prints_as_plural_dot_group() {
        assert_eq!(PODS.to_string(), "pods");
        assert_eq!(DEPLOYMENTS.to_string(), "deployments.apps");
        assert_eq!(DEPLOYMENTS.api_version(), "apps/v1");
        assert_eq!(NODES.api_version(), "v1");
    }
}
