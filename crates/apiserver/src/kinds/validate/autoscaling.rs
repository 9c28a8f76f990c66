//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn autoscaler(_: &Value) -> Vec<Cause> {
    Vec::new()
}
