//! The status of a Service's load balancer. Pure.

use flyball_api::Service;
use flyball_api::service::{LoadBalancerIngress, LoadBalancerStatus};
use serde_json::{Value, json};

/// The patch that sets the status to `wanted`; `None` if it is the same.
pub fn status_patch(service: &Service, wanted: &LoadBalancerStatus) -> Option<Value> {
    let current: Vec<_> = service.status.load_balancer.ingress.iter().map(defaulted).collect();
    let defaulted_wanted: Vec<_> = wanted.ingress.iter().map(defaulted).collect();
    let ingress = if wanted.ingress.is_empty() { Value::Null } else { json!(wanted.ingress) };
    let patch = json!({
        "metadata": {"uid": service.metadata.uid},
        "status": {"loadBalancer": {"ingress": ingress}},
    });
    (current != defaulted_wanted).then_some(patch)
}

/// An entry as the API server stores it: the mode of an entry with an address is VIP by default.
fn defaulted(ingress: &LoadBalancerIngress) -> LoadBalancerIngress {
    let mut ingress = ingress.clone();
    if !ingress.ip.is_empty() {
        ingress.ip_mode.get_or_insert_with(|| "VIP".into());
    }
    ingress
}
