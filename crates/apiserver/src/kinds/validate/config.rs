//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn config_map(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn limit_range(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn resource_quota(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn secret(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn secret_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
