//! Custom resources: definitions become resources of their own, with a schema that prunes, defaults and validates.

use jiff::Timestamp;
use serde_json::Value;

use crate::invalid::Cause;
use crate::server::Inner;
use crate::store::Key;

/// One version of a custom resource.
pub struct Definition {}

impl Definition {
    /// Drops the fields that the schema does not have, and names them.
    pub fn prune(&self, _object: &mut Value) -> Vec<String> {
        Vec::new()
    }

    /// Fills in the schema's defaults.
    pub fn default(&self, _object: &mut Value) {}

    /// What is wrong with an object.
    pub fn validate(&self, _object: &Value) -> Vec<Cause> {
        Vec::new()
    }

    /// What is wrong with a change.
    pub fn validate_update(&self, new: &Value, _old: &Value) -> Vec<Cause> {
        self.validate(new)
    }

    /// Where `/scale` finds its numbers.
    pub fn scale_paths(&self) -> crate::registry::ScalePaths<'_> {
        crate::registry::ScalePaths::DEFAULT
    }

    /// Columns of `kubectl get`.
    pub fn columns(&self, _version: &str) -> Vec<Value> {
        Vec::new()
    }

    /// One row of `kubectl get`.
    pub fn cells(&self, _version: &str, _object: &Value, _now: Timestamp) -> Vec<Value> {
        Vec::new()
    }
}

pub(crate) fn load(_server: &Inner) {}

pub(crate) fn changed(_server: &Inner, _key: &Key) {}
