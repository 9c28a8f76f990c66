//! Events, in both versions.

use serde_json::Value;

use super::{At, names};
use crate::invalid::Cause;
use crate::kinds::json::Json;

/// Core events are hardly validated, for compatibility.
pub(in crate::kinds) fn core(event: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let (own, involved) = (event.text("metadata.namespace"), event.text("involvedObject.namespace"));
    let cluster_scoped = involved.is_empty() && matches!(own, "default" | "kube-system" | "");
    if !cluster_scoped && involved != own && !involved.is_empty() {
        faults.push(Cause::invalid("involvedObject.namespace", involved, "does not match event.namespace"));
    }
    faults
}

/// Stored as core events, hence the names of the fields.
pub(in crate::kinds) fn v1(event: &Value) -> Vec<Cause> {
    let mut faults = core(event);
    let root = At::root(event);
    if !event.has("eventTime") {
        faults.push(Cause::required("eventTime", ""));
    }
    let controller = event.text("reportingComponent");
    if controller.is_empty() {
        faults.push(Cause::required("reportingController", ""));
    }
    let details = names::qualified_name(controller);
    faults.extend(details.iter().map(|detail| Cause::invalid("reportingController", controller, detail)));
    for field in ["reportingInstance", "action", "reason"] {
        root.require(&mut faults, field);
    }
    if !matches!(event.text("type"), "Normal" | "Warning") {
        faults.push(Cause::invalid("type", event.text("type"), "must be Normal or Warning"));
    }
    faults
}
