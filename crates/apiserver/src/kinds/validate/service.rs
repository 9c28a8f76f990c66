//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn service(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn service_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
