//! v
use crate::invalid::Cause;
use serde_json::Value;
pub(in crate::kinds) fn disruption_budget(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
pub(in crate::kinds) fn priority_class(_: &Value, _: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}
