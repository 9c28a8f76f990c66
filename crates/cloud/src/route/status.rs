//! What the condition of a Node says about its routes. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::condition::{Condition, FALSE, TRUE};
use flyball_api::{Node, Timestamp};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::Route;

const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

/// A range of a Node that has no route.
pub type Missing = BTreeSet<(SmolStr, SmolStr)>;

/// Whether the pods of a Node can be reached; none if that is not for us to say, as there are neither ranges nor
/// routes.
pub fn is_reachable(node: &Node, routes: &[Route], missing: &Missing) -> Option<bool> {
    let name = &node.metadata.name;
    if node.spec.pod_cidrs.is_empty() {
        return routes.iter().any(|route| route.node == *name).then_some(false);
    }
    Some(!node.spec.pod_cidrs.iter().any(|range| missing.contains(&(name.clone(), range.clone()))))
}

/// The patch of the status that says so; none if the Node says so already.
pub fn reporting(node: &Node, is_reachable: bool, now: Timestamp) -> Option<Value> {
    let (status, reason, message) = match is_reachable {
        true => (FALSE, "RouteCreated", "RouteController created a route"),
        false => (TRUE, "NoRouteCreated", "RouteController failed to create a route"),
    };
    let says = node.condition(NETWORK_UNAVAILABLE);
    if says.is_some_and(|condition| condition.status == status && condition.reason == reason) {
        return None;
    }
    let condition = Condition {
        type_: NETWORK_UNAVAILABLE.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        last_heartbeat_time: Some(now),
        last_transition_time: Some(now),
        ..Condition::default()
    };
    Some(json!({"status": {"conditions": [condition]}}))
}

/// The patches for all Nodes.
pub fn reports<'a>(
    nodes: &'a [Arc<Node>],
    routes: &[Route],
    missing: &Missing,
    now: Timestamp,
) -> Vec<(&'a Node, Value)> {
    let patch = |node: &Node| reporting(node, is_reachable(node, routes, missing)?, now);
    nodes.iter().filter_map(|node| Some((&**node, patch(node)?))).collect()
}
