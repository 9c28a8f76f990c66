//! The contents of a lease, as client-go's LeaseLock reads and writes them.

use std::time::Duration;

use flyball_api::{Timestamp, time};
use serde_json::{Value, json};

/// The content of a Lease's spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Empty after a release.
    pub holder: String,
    /// How long it is valid after a renewal.
    pub duration_seconds: i64,
    /// When the holder got it.
    pub acquired: Option<Timestamp>,
    /// When the holder last renewed it.
    pub renewed: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i64,
    /// How the API server chooses the holder; empty without coordinated leader election.
    pub strategy: String,
    /// Who is to hold it next, if the API server has chosen another holder.
    pub preferred_holder: String,
}

impl Record {
    /// Fields that are absent or of a wrong type count as never set.
    pub fn of_lease(lease: &Value) -> Self {
        let spec = &lease["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let time = |field: &str| spec[field].as_str().and_then(|text| text.parse().ok());
        Self {
            holder: text("holderIdentity"),
            duration_seconds: spec["leaseDurationSeconds"].as_i64().unwrap_or_default(),
            acquired: time("acquireTime"),
            renewed: time("renewTime"),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or_default(),
            strategy: text("strategy"),
            preferred_holder: text("preferredHolder"),
        }
    }

    /// How long it is valid after a renewal.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or_default())
    }

    /// The spec to write, always with the five fields that every lease has.
    pub fn to_spec(&self) -> Value {
        let mut spec = json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_seconds,
            "acquireTime": self.acquired.map(time::format_micros),
            "renewTime": self.renewed.map(time::format_micros),
            "leaseTransitions": self.transitions,
        });
        for (field, text) in [("strategy", &self.strategy), ("preferredHolder", &self.preferred_holder)] {
            if !text.is_empty() {
                spec[field] = text.as_str().into();
            }
        }
        spec
    }

    /// The lease as read, with this record in it. managedFields are left to the server.
    pub fn in_lease(&self, lease: &Value) -> Value {
        let mut lease = lease.clone();
        if let Some(metadata) = lease["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        lease["spec"] = self.to_spec();
        lease
    }

    /// A lease that does not exist yet.
    pub fn new_lease(&self, namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": name, "namespace": namespace },
            "spec": self.to_spec(),
        })
    }
}

/// Truncates to microseconds, as in a lease, so that what was written compares equal to what is read.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}
