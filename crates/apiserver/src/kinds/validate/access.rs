//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn binding(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn cluster_role(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn role(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
