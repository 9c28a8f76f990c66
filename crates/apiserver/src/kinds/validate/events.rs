//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn core(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn v1(_: &Value) -> Vec<Cause> {
    Vec::new()
}
