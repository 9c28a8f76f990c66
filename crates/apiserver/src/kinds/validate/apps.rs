//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn pod_template(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn controller_revision(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn deployment(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn deployment_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn replica_set(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn replica_set_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn replica_counts(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn daemon_set(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn daemon_set_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn stateful_set(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn stateful_set_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn replication_controller(_: &Value) -> Vec<Cause> {
    Vec::new()
}
