//! Which routes the cloud has to delete and to create. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use flyball_node::ipam::settings::parse;
use ipnet::IpNet;
use smol_str::SmolStr;

use crate::Route;

/// What the decision depends on.
#[derive(Debug)]
pub struct View<'a> {
    pub nodes: &'a [Arc<Node>],
    /// The routes that the cloud has.
    pub routes: &'a [Route],
    /// The pod ranges of the cluster. Routes outside of them are left alone.
    pub ranges: &'a [IpNet],
}

/// The calls to the cloud: first all deletions, then all creations.
#[derive(Debug, Default, PartialEq)]
pub struct CloudCalls {
    pub delete: Vec<Route>,
    pub create: Vec<NewRoute>,
    /// Routes that are left alone because their destination cannot be parsed.
    pub unparsable: Vec<Route>,
}

impl CloudCalls {
    pub fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.create.is_empty()
    }
}

/// A route to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRoute {
    /// The uid of the Node, for the name of the route.
    pub hint: String,
    pub route: Route,
}

/// The route of one range of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Right,
    Missing,
    /// It leads to addresses that the Node does not have any more.
    Outdated,
}

pub fn plan(view: &View<'_>) -> CloudCalls {
    let mut present: BTreeMap<(&str, &str), &Route> = BTreeMap::new();
    for route in view.routes.iter().filter(|route| !(route.is_blackhole && is_ours(route, view.ranges))) {
        present.entry((&route.node, &route.destination)).or_insert(route);
    }
    let mut states: BTreeMap<(&str, &str), State> = BTreeMap::new();
    for node in view.nodes {
        for range in &node.spec.pod_cidrs {
            let route = present.get(&(node.metadata.name.as_str(), range.as_str()));
            states.insert((&node.metadata.name, range), state(route.copied(), node));
        }
    }
    let is_right = |node: &str, range: &str| states.get(&(node, range)) == Some(&State::Right);
    let is_wrong = |route: &&Route| {
        let is_useful = !route.is_blackhole && is_right(&route.node, &route.destination);
        is_ours(route, view.ranges) && !is_useful
    };
    let delete = view.routes.iter().filter(is_wrong).cloned().collect();
    let unparsable =
        view.routes.iter().filter(|route| parse(&route.destination).is_none()).cloned().collect();
    let mut calls = CloudCalls { delete, create: vec![], unparsable };
    for node in view.nodes {
        // A range that is listed twice needs one route.
        let ranges: BTreeSet<&SmolStr> = node.spec.pod_cidrs.iter().collect();
        let missing = ranges.into_iter().filter(|range| !is_right(&node.metadata.name, range));
        calls.create.extend(missing.map(|range| NewRoute {
            hint: node.metadata.uid.to_string(),
            route: Route {
                node: node.metadata.name.clone(),
                node_addresses: Some(node.status.addresses.to_vec()),
                destination: range.clone(),
                ..Route::default()
            },
        }));
    }
    calls
}

fn state(route: Option<&Route>, node: &Node) -> State {
    match route.map(|route| &route.node_addresses) {
        None => State::Missing,
        Some(None) => State::Right,
        Some(Some(addresses)) if are_same(addresses, &node.status.addresses) => State::Right,
        Some(Some(_)) => State::Outdated,
    }
}

/// Whether both have the same addresses, in any order.
fn are_same(a: &[NodeAddress], b: &[NodeAddress]) -> bool {
    a.len() == b.len() && a.iter().all(|address| b.contains(address))
}

/// Whether a route is in one of the ranges, entirely or with one end. A route that cannot be parsed is not.
fn is_ours(route: &Route, ranges: &[IpNet]) -> bool {
    let Some(destination) = parse(&route.destination) else { return false };
    let ends = [destination.network(), destination.broadcast()];
    ranges.iter().any(|range| ends.iter().any(|end| range.contains(end)))
}
