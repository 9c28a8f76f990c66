//! Namespaces.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{ObjectMeta, resource};

/// A v1 Namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Namespace {
    pub metadata: ObjectMeta,
    pub spec: NamespaceSpec,
    pub status: NamespaceStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceSpec {
    /// `kubernetes` until all contents are gone.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub finalizers: Box<[SmolStr]>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceStatus {
    /// `Active` or `Terminating`.
    #[serde(skip_serializing_if = "skip::default")]
    pub phase: SmolStr,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Namespace {
    /// Whether it is terminating: nothing can be created in it.
    pub fn is_terminating(&self) -> bool {
        self.status.phase == "Terminating"
    }
}

resource!(Namespace, "", "v1", "namespaces", "Namespace", cluster);
