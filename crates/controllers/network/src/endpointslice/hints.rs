//! Who should use which endpoint: hints as a Service's `trafficDistribution` asks for them, or none.
//! Hints spread over zones by their size are in [`topology`](super::topology).

use flyball_api::endpoint_slice::{Endpoint, EndpointHints, ForNode, ForZone};
use flyball_api::{EndpointSlice, Service};
use smol_str::SmolStr;

use super::packing::Changes;

/// What hints a Service wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Everybody may use every endpoint.
    None,
    /// Endpoints are shared out between zones according to their size.
    Auto,
    /// Clients stay in their zone.
    SameZone,
    /// Clients stay on their node, or else in their zone.
    SameNode,
}

impl Wish {
    /// What `service` wants. The annotations outrank the field, and the older of them the newer one.
    pub fn of(service: &Service) -> Self {
        let annotations = &service.metadata.annotations;
        let older = annotations.get("service.kubernetes.io/topology-aware-hints");
        let mode = older.or_else(|| annotations.get("service.kubernetes.io/topology-mode"));
        if matches!(mode, Some("Auto" | "auto")) {
            return Wish::Auto;
        }
        match service.spec.traffic_distribution.as_deref() {
            Some("PreferClose" | "PreferSameZone") => Wish::SameZone,
            Some("PreferSameNode") => Wish::SameNode,
            _ => Wish::None,
        }
    }
}

/// Whether an endpoint is ready; only those get hints.
pub(super) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

/// A hint for the clients of one zone.
pub(super) fn for_zone(zone: &SmolStr) -> Option<EndpointHints> {
    Some(EndpointHints { for_zones: vec![ForZone { name: zone.clone() }], ..EndpointHints::default() })
}

pub fn clear(changes: &mut Changes<'_>) {
    changes.disturb(|slice| slice.endpoints.iter().any(|endpoint| endpoint.hints.is_some()));
    for slice in changes.written() {
        for endpoint in &mut slice.endpoints {
            endpoint.hints = None;
        }
    }
}

/// Hints every ready endpoint to the clients near it.
pub fn stay_close(changes: &mut Changes<'_>, same_node: bool) {
    let is_wrong =
        |endpoint: &Endpoint| is_ready(endpoint) && endpoint.hints != close_hints(endpoint, same_node);
    changes.disturb(|slice: &EndpointSlice| slice.endpoints.iter().any(is_wrong));
    for slice in changes.written() {
        for endpoint in slice.endpoints.iter_mut().filter(|endpoint| is_ready(endpoint)) {
            endpoint.hints = close_hints(endpoint, same_node);
        }
    }
}

fn close_hints(endpoint: &Endpoint, same_node: bool) -> Option<EndpointHints> {
    let zone = endpoint.zone.iter().map(|zone| ForZone { name: zone.clone() });
    let node = endpoint.node_name.iter().filter(|_| same_node).map(|node| ForNode { name: node.clone() });
    let hints = EndpointHints { for_zones: zone.collect(), for_nodes: node.collect() };
    (hints != EndpointHints::default()).then_some(hints)
}
