//! ControllerRevisions: the history of DaemonSets and StatefulSets.

use serde::{Deserialize, Serialize};

use crate::{ObjectMeta, RawJson, resource};

/// An apps/v1 ControllerRevision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ControllerRevision {
    pub metadata: ObjectMeta,
    /// A patch that restores the revision, byte for byte.
    pub data: RawJson,
    pub revision: i64,
}

resource!(ControllerRevision, "apps", "v1", "controllerrevisions", "ControllerRevision", namespaced);
