//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn job(_: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn job_update(_: &Value, _: &Value) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn cron_job(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
