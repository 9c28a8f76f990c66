//! Leases: the heartbeat of nodes and the seat of leaders.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::time::{self, Timestamp};
use crate::{ObjectMeta, resource};

/// A coordination.k8s.io/v1 Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lease {
    pub metadata: ObjectMeta,
    /// Who holds it, since when and until when.
    pub spec: LeaseSpec,
}

/// The contents of a [`Lease`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    /// Who holds it; empty or absent when it is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<SmolStr>,
    /// For how long a renewal counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    /// When the holder got it.
    #[serde(with = "time::micros_opt", skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<Timestamp>,
    /// When the holder last confirmed it.
    #[serde(with = "time::micros_opt", skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<Timestamp>,
    /// How often it changed hands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
    /// How the holder is chosen under coordinated election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<SmolStr>,
    /// Who should take over under coordinated election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_holder: Option<SmolStr>,
}

resource!(Lease, "coordination.k8s.io", "v1", "leases", "Lease", namespaced);
