//! References to objects of any kind, as events, endpoints and volumes hold them.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{Uid, intern};

/// A reference whose every part may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version.
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub api_version: SmolStr,
    /// Kind.
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub kind: SmolStr,
    /// Empty for cluster-scoped objects.
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    /// Name.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
    /// Identity.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// The version that was seen.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub resource_version: SmolStr,
    /// The part of the object that is meant.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub field_path: SmolStr,
}
