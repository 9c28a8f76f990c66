//! Defaults of network policies.

use serde_json::{Value, json};

use super::json::Json;

/// A policy applies to ingress, and to egress if it has egress rules.
pub(super) fn default_network_policy_spec(spec: &mut Value) {
    if spec.items("policyTypes").is_empty() {
        let egress = !spec.items("egress").is_empty();
        spec.put("policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
}
