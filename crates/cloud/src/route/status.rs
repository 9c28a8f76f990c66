//! What Nodes report about their routes: conditions and events. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::condition::{Condition, FALSE, TRUE};
use flyball_api::{Node, Object, Timestamp};
use flyball_client::Patch;
use flyball_runtime::config::duration;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, Write};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::plan::NewRoute;
use crate::Route;

const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

/// Ranges without a route, each with its Node.
pub type Missing = BTreeSet<(SmolStr, SmolStr)>;

/// Whether the pods of a Node can be reached; `None` for a Node that has neither ranges nor routes, whose condition is left
/// alone.
pub fn is_reachable(node: &Node, routes: &[Route], missing: &Missing) -> Option<bool> {
    let name = &node.metadata.name;
    if node.spec.pod_cidrs.is_empty() {
        return routes.iter().any(|route| route.node == *name).then_some(false);
    }
    Some(!node.spec.pod_cidrs.iter().any(|range| missing.contains(&(name.clone(), range.clone()))))
}

/// The patch of the status with the condition; `None` if the Node has it.
pub fn condition_patch(node: &Node, is_reachable: bool, now: Timestamp) -> Option<Value> {
    let (status, reason, message) = match is_reachable {
        true => (FALSE, "RouteCreated", "RouteController created a route"),
        false => (TRUE, "NoRouteCreated", "RouteController failed to create a route"),
    };
    let current = node.condition(NETWORK_UNAVAILABLE);
    if current.is_some_and(|condition| condition.status == status && condition.reason == reason) {
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

/// A route that was to be created, and the outcome.
#[derive(Debug, Clone)]
pub struct Creation {
    pub new: NewRoute,
    pub took: Duration,
    pub error: Option<String>,
}

/// What a round found and did in the cloud.
#[derive(Debug)]
pub struct Observed {
    pub nodes: Vec<Arc<Node>>,
    /// The routes that the cloud had before the round.
    pub routes: Vec<Route>,
    pub creations: Vec<Creation>,
    pub now: Timestamp,
}

/// Events for routes that could not be created, then the conditions of all Nodes.
pub fn report(observed: &Observed) -> Plan {
    let Observed { nodes, routes, creations, now } = observed;
    let failed = creations
        .iter()
        .filter_map(|creation| Some((&creation.new, creation.took, creation.error.as_ref()?)));
    let missing: Missing =
        failed.clone().map(|(new, ..)| (new.route.node.clone(), new.route.destination.clone())).collect();
    let events = failed.filter_map(|(new, took, error)| {
        let node = nodes.iter().find(|node| node.metadata.name == new.route.node)?;
        Some(Effect::from(creation_failed(node, new, took, error)))
    });
    let conditions = nodes.iter().filter_map(|node| {
        let patch = condition_patch(node, is_reachable(node, routes, &missing)?, *now)?;
        Some(
            Write::patch::<Node>(node.key(), Patch::Strategic(patch))
                .subresource("status")
                .why("its routes have changed")
                .ignore(ErrorKinds::NOT_FOUND),
        )
    });
    Plan::of(events.chain([Effect::concurrent(conditions).into()]))
}

fn creation_failed(node: &Node, new: &NewRoute, took: Duration, error: &str) -> Event {
    let NewRoute { hint, route: Route { destination, .. } } = new;
    let (name, took) = (&node.metadata.name, duration::print(took));
    let message =
        format!("Could not create route {hint} {destination} for node {name} after {took}: {error}");
    Event::warning("FailedToCreateRoute", message).about(ObjectRef::named::<Node>("", name, node.uid()))
}
