//! What a lease says, as client-go's LeaseLock reads and writes it.

use flyball_api::{Timestamp, time};
use serde_json::{Value, json};

/// The content of a Lease's spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty after a release.
    pub holder: String,
    /// For how long after a renewal it is to be respected.
    pub duration_seconds: i64,
    /// When the holder got it.
    pub acquired: Option<Timestamp>,
    /// When the holder last renewed it.
    pub renewed: Option<Timestamp>,
    /// How often it has changed hands.
    pub transitions: i64,
}

impl Record {
    /// Reads a Lease object; what is absent or of a wrong type counts as never set.
    pub fn of_lease(lease: &Value) -> Self {
        let spec = &lease["spec"];
        let moment = |field: &str| spec[field].as_str().and_then(|text| text.parse().ok());
        Self {
            holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
            duration_seconds: spec["leaseDurationSeconds"].as_i64().unwrap_or_default(),
            acquired: moment("acquireTime"),
            renewed: moment("renewTime"),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or_default(),
        }
    }

    /// The spec to write. All five fields are always there.
    pub fn to_spec(&self) -> Value {
        json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_seconds,
            "acquireTime": self.acquired.map(time::format_micros),
            "renewTime": self.renewed.map(time::format_micros),
            "leaseTransitions": self.transitions,
        })
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

/// Cuts a time to the microseconds that a lease can hold, so that what we wrote compares equal to what we read.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}
