//! References to objects of any kind, in events, endpoints and volumes.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use smol_str::SmolStr;

use crate::Uid;
use crate::intern::{self, Interner};

/// A reference. All fields are optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub api_version: SmolStr,
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub kind: SmolStr,
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// The version that was seen.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub resource_version: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub field_path: SmolStr,
}

/// A reference that shares its storage with all equal ones: a pod is in the Endpoints and in the slices of every
/// Service that selects it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "ObjectReference")]
pub struct SharedReference(Arc<ObjectReference>);

static REFERENCES: Interner<ObjectReference> = Interner::new();

impl SharedReference {
    /// The same without the resourceVersion, which old releases set.
    pub fn unversioned(&self) -> Self {
        if self.resource_version.is_empty() {
            return self.clone();
        }
        ObjectReference { resource_version: SmolStr::default(), ..ObjectReference::clone(self) }.into()
    }
}

impl From<ObjectReference> for SharedReference {
    fn from(reference: ObjectReference) -> Self {
        Self(REFERENCES.share(reference))
    }
}

impl Deref for SharedReference {
    type Target = ObjectReference;
    fn deref(&self) -> &ObjectReference {
        &self.0
    }
}

impl Serialize for SharedReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ObjectReference::serialize(self, serializer)
    }
}
