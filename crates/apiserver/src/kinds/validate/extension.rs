//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn api_service(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn webhooks(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn validating_policy(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn definition(_: &Value) -> Vec<Cause> {
    Vec::new()
}
