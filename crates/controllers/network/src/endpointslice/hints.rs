//! The hints that a Service's `trafficDistribution` requests. Pure. Hints in proportion to the size of zones are in
//! [`topology`](super::topology).

use flyball_api::endpoint_slice::{Endpoint, EndpointHints, ForNode, ForZone};
use flyball_api::{EndpointSlice, Service};
use smol_str::SmolStr;

use super::packing::Changes;

/// The hints that a Service requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintMode {
    None,
    /// Endpoints are allocated to zones in proportion to their CPUs.
    Auto,
    /// Clients stay in their zone.
    SameZone,
    /// Clients stay on their node, or else in their zone.
    SameNode,
}

impl HintMode {
    /// The annotations take precedence over the field, and the older annotation over the newer one. `has_same`: whether the
    /// field may be `PreferSameZone` or `PreferSameNode` (`PreferSameTrafficDistribution`).
    pub fn of(service: &Service, has_same: bool) -> Self {
        let annotations = &service.metadata.annotations;
        let older = annotations.get("service.kubernetes.io/topology-aware-hints");
        let mode = older.or_else(|| annotations.get("service.kubernetes.io/topology-mode"));
        if matches!(mode, Some("Auto" | "auto")) {
            return HintMode::Auto;
        }
        match service.spec.traffic_distribution.as_deref() {
            Some("PreferClose") => HintMode::SameZone,
            Some("PreferSameZone") if has_same => HintMode::SameZone,
            Some("PreferSameNode") if has_same => HintMode::SameNode,
            _ => HintMode::None,
        }
    }

    /// The `trafficDistribution` of a Service whose hints follow it.
    pub(super) fn distribution(self, service: &Service) -> Option<SmolStr> {
        let is_followed = matches!(self, HintMode::SameZone | HintMode::SameNode);
        service.spec.traffic_distribution.clone().filter(|_| is_followed)
    }
}

/// Only ready endpoints get hints.
pub(super) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

pub(super) fn for_zone(zone: &SmolStr) -> Option<Box<EndpointHints>> {
    let for_zones = vec![ForZone { name: zone.clone() }];
    Some(Box::new(EndpointHints { for_zones, ..EndpointHints::default() }))
}

pub fn clear(changes: &mut Changes<'_>) {
    changes.update_where(|slice| slice.endpoints.iter().any(|endpoint| endpoint.hints.is_some()));
    for slice in changes.written() {
        for endpoint in &mut slice.endpoints {
            endpoint.hints = None;
        }
    }
}

/// Hints every ready endpoint to the clients in its zone, and on its node if `same_node`.
pub fn prefer_close(changes: &mut Changes<'_>, same_node: bool) {
    let is_wrong =
        |endpoint: &Endpoint| is_ready(endpoint) && endpoint.hints != close_hints(endpoint, same_node);
    changes.update_where(|slice: &EndpointSlice| slice.endpoints.iter().any(is_wrong));
    for slice in changes.written() {
        for endpoint in slice.endpoints.iter_mut().filter(|endpoint| is_ready(endpoint)) {
            endpoint.hints = close_hints(endpoint, same_node);
        }
    }
}

fn close_hints(endpoint: &Endpoint, same_node: bool) -> Option<Box<EndpointHints>> {
    let zone = endpoint.zone.iter().map(|zone| ForZone { name: zone.clone() });
    let node = endpoint.node_name.iter().filter(|_| same_node).map(|node| ForNode { name: node.clone() });
    let hints = EndpointHints { for_zones: zone.collect(), for_nodes: node.collect() };
    (hints != EndpointHints::default()).then(|| Box::new(hints))
}
