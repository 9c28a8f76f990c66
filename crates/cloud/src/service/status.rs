//! What the status of a Service says about its load balancer. Pure.

use flyball_api::Service;
use flyball_api::service::{LoadBalancerIngress, LoadBalancerStatus};
use serde_json::{Value, json};

/// The patch of the status that makes it say `wanted`; none if it does.
pub fn reporting(service: &Service, wanted: &LoadBalancerStatus) -> Option<Value> {
    let says: Vec<_> = service.status.load_balancer.ingress.iter().map(defaulted).collect();
    let should: Vec<_> = wanted.ingress.iter().map(defaulted).collect();
    let ingress = if wanted.ingress.is_empty() { Value::Null } else { json!(wanted.ingress) };
    let patch = json!({
        "metadata": {"uid": service.metadata.uid},
        "status": {"loadBalancer": {"ingress": ingress}},
    });
    (says != should).then_some(patch)
}

/// An entry as the API server stores it: whatever is reached by address is reached as a VIP, unless it says otherwise.
fn defaulted(ingress: &LoadBalancerIngress) -> LoadBalancerIngress {
    let mut ingress = ingress.clone();
    if !ingress.ip.is_empty() {
        ingress.ip_mode.get_or_insert_with(|| "VIP".into());
    }
    ingress
}
