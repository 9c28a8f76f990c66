//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn lease(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn runtime_class(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn resource_claim(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn resource_claim_template(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn node(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn node_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn resource_slice(_: &Value) -> Vec<Cause> {
    Vec::new()
}
