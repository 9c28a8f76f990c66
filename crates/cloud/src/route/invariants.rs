//! What must hold for every plan about routes; for tables, properties and the simulator.

use ipnet::IpNet;

use super::plan::{CloudCalls, View, plan};
use crate::Route;

/// The routes of the cloud after these calls.
fn after(view: &View<'_>, calls: &CloudCalls) -> Vec<Route> {
    let kept = view.routes.iter().filter(|route| !calls.delete.contains(route)).cloned();
    kept.chain(calls.create.iter().map(|new| new.route.clone())).collect()
}

/// Checks calls to the cloud against their view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, calls: &CloudCalls) -> Result<(), String> {
    let is_inside = |route: &Route, range: &IpNet| {
        let destination = route.destination.parse::<IpNet>();
        destination.is_ok_and(|it| range.contains(&it.network()) || range.contains(&it.broadcast()))
    };
    for route in &calls.delete {
        if !view.ranges.iter().any(|range| is_inside(route, range)) {
            return Err(format!("a route outside of the cluster is deleted: {route:?}"));
        }
    }
    let routes = after(view, calls);
    for node in view.nodes {
        for range in &node.spec.pod_cidrs {
            let leads = |route: &&Route| route.node == node.metadata.name && route.destination == *range;
            if !routes.iter().any(|route| leads(&route)) {
                return Err(format!("{range} of {} has no route", node.metadata.name));
            }
        }
    }
    match plan(&View { routes: &routes, ..*view }) {
        rest if rest.is_empty() => Ok(()),
        rest => Err(format!("after the calls there is more to do: {rest:?}")),
    }
}
