//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn endpoints(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn ingress_class(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn ingress(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn ip_address(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn network_policy(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn service_cidr(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn endpoint_slice(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
