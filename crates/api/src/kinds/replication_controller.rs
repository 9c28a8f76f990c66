//! ReplicationControllers: the predecessor of ReplicaSets, with a plain map as selector.

use serde::{Deserialize, Serialize};

use crate::replica_set::ReplicaSetStatus;
use crate::{Labels, ObjectMeta, PodTemplate, WithRaw, resource};

/// A v1 ReplicationController.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationController {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<ReplicationControllerSpec>,
    /// The same type as a ReplicaSet's; `terminatingReplicas` is always absent.
    pub status: ReplicaSetStatus,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationControllerSpec {
    /// How many pods; the server defaults it to one.
    pub replicas: Option<i32>,
    /// How long a pod must be ready to be available.
    pub min_ready_seconds: i32,
    /// The labels of its pods; by default those of the template.
    pub selector: Labels,
    pub template: Option<PodTemplate>,
}

resource!(ReplicationController, "", "v1", "replicationcontrollers", "ReplicationController", namespaced);
