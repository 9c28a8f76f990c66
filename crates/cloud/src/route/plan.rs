//! Which routes are to be made and which are to go. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use flyball_node::ipam::settings::parse;
use ipnet::IpNet;
use smol_str::SmolStr;

use crate::Route;

/// Everything the decision may look at.
#[derive(Debug)]
pub struct View<'a> {
    pub nodes: &'a [Arc<Node>],
    /// The routes of the cloud.
    pub routes: &'a [Route],
    /// The ranges of the cluster: routes in them are ours.
    pub ranges: &'a [IpNet],
}

/// What is to be done, in this order.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    pub delete: Vec<&'a Route>,
    pub create: Vec<NewRoute>,
}

/// A route that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRoute {
    /// Something unique to the node, for the route's name.
    pub hint: String,
    pub route: Route,
}

/// What has to happen to a range of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Add,
    /// There is one to addresses that the Node has not got any more.
    Replace,
}

/// Compares what is with what should be.
pub fn plan<'a>(view: &View<'a>) -> Plan<'a> {
    let mut present: BTreeMap<(&str, &str), &Route> = BTreeMap::new();
    for route in view.routes.iter().filter(|route| !(route.is_blackhole && is_ours(route, view.ranges))) {
        present.entry((&route.node, &route.destination)).or_insert(route);
    }
    let mut fates: BTreeMap<(&str, &str), Fate> = BTreeMap::new();
    for node in view.nodes {
        for range in &node.spec.pod_cidrs {
            let route = present.get(&(node.metadata.name.as_str(), range.as_str()));
            fates.insert((&node.metadata.name, range), fate(route.copied(), node));
        }
    }
    let is_kept = |node: &str, range: &str| fates.get(&(node, range)) == Some(&Fate::Keep);
    let goes = |route: &&Route| {
        let is_useful = !route.is_blackhole && is_kept(&route.node, &route.destination);
        is_ours(route, view.ranges) && !is_useful
    };
    let mut plan = Plan { delete: view.routes.iter().filter(goes).collect(), create: vec![] };
    for node in view.nodes {
        // A range that is listed twice needs one route.
        let ranges: BTreeSet<&SmolStr> = node.spec.pod_cidrs.iter().collect();
        let missing = ranges.into_iter().filter(|range| !is_kept(&node.metadata.name, range));
        plan.create.extend(missing.map(|range| NewRoute {
            hint: node.metadata.uid.to_string(),
            route: Route {
                node: node.metadata.name.clone(),
                node_addresses: Some(node.status.addresses.to_vec()),
                destination: range.clone(),
                ..Route::default()
            },
        }));
    }
    plan
}

fn fate(route: Option<&Route>, node: &Node) -> Fate {
    match route.map(|route| &route.node_addresses) {
        None => Fate::Add,
        Some(None) => Fate::Keep,
        Some(Some(addresses)) if are_same(addresses, &node.status.addresses) => Fate::Keep,
        Some(Some(_)) => Fate::Replace,
    }
}

/// Whether both have the same addresses, in whatever order.
fn are_same(a: &[NodeAddress], b: &[NodeAddress]) -> bool {
    a.len() == b.len() && a.iter().all(|address| b.contains(address))
}

/// Whether a route is in one of the ranges, wholly or at one end. One that cannot be read is somebody else's.
fn is_ours(route: &Route, ranges: &[IpNet]) -> bool {
    let Some(destination) = parse(&route.destination) else {
        tracing::warn!(route = %route.name, destination = %route.destination, "a route has no range that can be read; it is left alone");
        return false;
    };
    let ends = [destination.network(), destination.broadcast()];
    ranges.iter().any(|range| ends.iter().any(|end| range.contains(end)))
}
