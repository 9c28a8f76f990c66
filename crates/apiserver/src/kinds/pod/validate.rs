//! v
use crate::invalid::Cause;
use crate::registry::Subresource;
use serde_json::Value;
pub(in crate::kinds) fn template(_: &mut Vec<Cause>, _: &Value, _: &str) {}
pub(super) fn create(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(super) fn update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(super) fn subresource(_: Subresource, _: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
