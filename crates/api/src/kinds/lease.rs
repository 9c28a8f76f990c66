//! Leases, for heartbeats of nodes and leader election.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::time::{self, Timestamp};
use crate::{ObjectMeta, resource};

/// A coordination.k8s.io/v1 Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lease {
    pub metadata: ObjectMeta,
    pub spec: LeaseSpec,
}

/// The contents of a [`Lease`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    /// The identity of the holder; empty or absent when the lease is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    #[serde(with = "time::micros_opt", skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<Timestamp>,
    #[serde(with = "time::micros_opt", skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_holder: Option<SmolStr>,
}

resource!(Lease, "coordination.k8s.io", "v1", "leases", "Lease", namespaced);
